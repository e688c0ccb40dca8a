"""The parts of the GR loss: generalised cross-entropy, khat and v.

Chen et al. 2024, Boosting Single Positive Multi-label Classification with Generalized Robust Loss,
IJCAI, https://arxiv.org/abs/2405.03501, Eq. 7, 11, 14. L_q is from Zhang and Sabuncu 2018,
Generalized Cross Entropy Loss, NeurIPS, https://arxiv.org/abs/1805.07836. Nothing here reads
labels. The authors' program adds 1e-7 inside the logarithm; here it is exact.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from plusone.losses.closed_form import working_dtype

Parameter = float | Tensor


def generalized_cross_entropy(z: Tensor, *, q: float) -> Tensor:
    """L_q of a positive: (1 - p^q) / q, which is 1 - p at q = 1 and -log p at q = 0 (GR Eq. 14).

    Args:
        z: Logits of any shape; give -z for the cost of a negative.
        q: Robustness, 0 or more.

    Returns:
        Losses in the shape of z. No labels enter.

    >>> generalized_cross_entropy(torch.zeros(1), q=1.0).item()
    0.5
    """
    if q < 0:
        raise ValueError(f"q must not be negative, got {q}")
    log_p = logsigmoid(z.to(working_dtype(z)))
    loss = -torch.expm1(q * log_p) / q if q > 0 else -log_p
    return loss.to(z.dtype)


def false_negative_probability(p: Tensor, *, w: Parameter, b: Parameter) -> Tensor:
    """Estimate khat = sigmoid(w p + b): chance that an unobserved label is positive (GR Eq. 7).

    Args:
        p: Probabilities `[B, L]`; detach them, as the paper stops the gradient here.
        w: Slope, a number or a tensor that broadcasts to `[B, L]` (per class: `[L]`).
        b: Intercept, as w.

    Returns:
        Probabilities `[B, L]`.

    >>> false_negative_probability(torch.ones(1), w=2.0, b=-2.0).item()
    0.5
    """
    return torch.sigmoid(w * p + b)


def confidence_weight(p: Tensor, *, mu: Parameter, sigma: Parameter) -> Tensor:
    """Weight v = exp(-(p - mu)^2 / (2 sigma^2)) of an unobserved label (GR Eq. 11).

    Args:
        p: Probabilities `[B, L]`; detach them, as the paper stops the gradient here.
        mu: Probability with weight 1.
        sigma: Width.

    Returns:
        Weights `[B, L]` in (0, 1].

    >>> confidence_weight(torch.ones(1), mu=1.0, sigma=0.5).item()
    1.0
    """
    return torch.exp(-((p - mu) ** 2) / (2 * sigma**2))
