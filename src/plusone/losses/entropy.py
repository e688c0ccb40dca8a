"""Unobserved labels pay or are paid for the entropy of their prediction.

Zhou et al. 2022, Acknowledging the Unknown for Multi-label Learning with Single Positive Labels,
ECCV, https://arxiv.org/abs/2203.16219, Eq. 3 (the poster writes it with its entropy) and Eq. 8
(asymmetric pseudo-labelling). The gradient for an unobserved label is Eq. 31 of Chen et al. 2024
(GR), https://arxiv.org/abs/2405.03501.

Deviation from the authors' program: it adds 1e-5 inside the logarithms; here they are exact.
Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative).
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses._logits import by_state, log_probabilities, on_logits


def entropy(z: Tensor) -> Tensor:
    """H(p) = -p log p - (1 - p) log(1 - p) in nats.

    >>> entropy(torch.zeros(1)).item()
    0.6931471824645996
    """
    p = torch.sigmoid(z)
    log_p, log_not_p = log_probabilities(z)
    return -p * log_p - (1 - p) * log_not_p


@on_logits
def entropy_maximization(z: Tensor, y: Tensor, *, alpha: float = 0.1) -> Tensor:
    """`em`: unobserved labels cost -alpha H(p), with the gradient through all of H (Zhou Eq. 3).

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative costs -log(1 - p) with full weight and no
            entropy; `alpha=0` ignores unobserved labels.
        alpha: Weight of the entropy; 0.2 VOC, 0.1 COCO and NUS, 0.01 CUB in the paper.

    Returns:
        Losses `[..., L]`, negative where the label is unobserved.

    >>> entropy_maximization(torch.zeros(1, 1), torch.zeros(1, 1), alpha=1.0).item()
    -0.6931471824645996
    """
    log_p, log_not_p = log_probabilities(z)
    return by_state(
        y,
        positive=-log_p,
        unobserved=-alpha * entropy(z),
        negative=-log_not_p,
    )


@on_logits
def entropy_with_pseudo_labels(
    z: Tensor, y: Tensor, soft: Tensor, *, alpha: float = 0.2, beta: float = 0.02
) -> Tensor:
    """`em`, except that pseudo-labelled entries cost beta times cross-entropy to a soft label.

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`; seen labels cost as in `em`.
        soft: Soft labels `[..., L]` in [0, 1]; -1 where there is none. Ignored at seen labels.
        alpha: Weight of the entropy; 0.2 VOC (the default, as that of `em_apl`), 0.1 COCO and NUS,
            0.01 CUB in the paper.
        beta: Weight of the pseudo-labels; 0.02 VOC, 0.9 COCO, 0.2 NUS, 0.4 CUB.

    Returns:
        Losses `[..., L]`.

    >>> entropy_with_pseudo_labels(
    ...     torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1, 1), beta=1.0
    ... ).item()
    0.6931471824645996
    """
    log_p, log_not_p = log_probabilities(z)
    pseudo = -soft * log_p - (1 - soft) * log_not_p  # Eq. 8
    return by_state(
        y,
        positive=-log_p,
        unobserved=torch.where(soft >= 0, beta * pseudo, -alpha * entropy(z)),
        negative=-log_not_p,
    )


@on_logits
def entropy_minimization(
    z: Tensor, y: Tensor, *, alpha: float = 0.1, negatives: bool = False
) -> Tensor:
    """`entmin`: an unobserved label costs alpha H(p), the opposite sign of `em`.

    Zhou et al. report it as a failure (EntMin in their table); it is here as that comparison.

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative costs -log(1 - p) and no entropy.
        alpha: Weight of the entropy.
        negatives: Whether the cost of an assumed negative, -log(1 - p), is added.

    Returns:
        Losses `[..., L]`.

    >>> entropy_minimization(torch.zeros(1, 1), torch.zeros(1, 1), alpha=1.0).item()
    0.6931471824645996
    """
    log_p, log_not_p = log_probabilities(z)
    return by_state(
        y,
        positive=-log_p,
        unobserved=alpha * entropy(z) - (log_not_p if negatives else 0.0),
        negative=-log_not_p,
    )
