"""Leveraged asymmetric losses: unobserved labels weigh less, and confident ones change sides.

LASD: Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with One-Positive
Annotations (submission to ICLR 2023), Eq. 4-8 and Theorem 5.4.

Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative); a seen negative costs
-log(1 - p) with full weight.
"""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from plusone.losses._logits import by_state, log_probabilities, on_logits
from plusone.losses.focusing import focal_cost


def balanced_lambda(lam_plus: float, *, k: float, n_classes: int) -> float:
    """lambda- = (1 + lambda+ (k - 1)) / (L - k), which makes the loss consistent (Theorem 5.4).

    Args:
        lam_plus: Weight of the unobserved labels taken for positives.
        k: Expected number of positives of an item.
        n_classes: L.

    >>> balanced_lambda(0.0, k=1.0, n_classes=21)
    0.05
    """
    if not 1 <= k < n_classes:
        raise ValueError(f"k must lie between 1 and the number of classes {n_classes}, got {k}")
    return (1 + lam_plus * (k - 1)) / (n_classes - k)


@on_logits
def leveraged_asymmetric(
    z: Tensor,
    y: Tensor,
    *,
    lam_plus: float,
    lam_minus: float,
    tau: float = 0.9,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
) -> Tensor:
    """`lasd`, and `las` at tau = 1 (LASD Eq. 5, 6).

    lambda+ = lambda- = 1 is SPLC without its margin, with tau = 1 also ASL without its shift;
    tau = 1 with both gammas 0 is WAN with gamma = lambda-.

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen positive costs (1 - p)^gamma+ * -log p; an unobserved
            label lambda+ times that if p > tau, else lambda- p^gamma- * -log(1 - p); a seen
            negative -log(1 - p).
        lam_plus: Weight of unobserved labels taken for positives.
        lam_minus: Weight of the other unobserved labels, see `balanced_lambda`.
        tau: Probability above which an unobserved label is taken for a positive.
        gamma_pos: Focusing exponent of positives.
        gamma_neg: Focusing exponent of negatives.

    Returns:
        Losses `[..., L]`; the paper sums over classes, `reduce(..., "item")`.

    >>> leveraged_asymmetric(
    ...     torch.zeros(1, 1), torch.zeros(1, 1), lam_plus=0.0, lam_minus=1.0, gamma_neg=0.0
    ... ).item()
    0.6931471824645996
    """
    log_p, log_not_p = log_probabilities(z)
    positive = focal_cost(log_p, log_not_p, gamma_pos)
    negative = focal_cost(log_not_p, log_p, gamma_neg)
    return by_state(
        y,
        positive=positive,
        unobserved=torch.where(torch.sigmoid(z) > tau, lam_plus * positive, lam_minus * negative),
        negative=-log_not_p,
    )


@on_logits
def consistency(*logits: Tensor) -> Tensor:
    """Squared distance of probabilities, summed over the pairs of views (LASD Eq. 7).

    Args:
        *logits: `[..., L]` for each of two or more views.

    Returns:
        Distances `[..., L]`; the sum of a row is the paper's value for an item.

    >>> consistency(torch.zeros(1, 1), torch.zeros(1, 1)).item()
    0.0
    """
    views = [torch.sigmoid(z) for z in logits]
    first, *others = ((a - b) ** 2 for a, b in combinations(views, 2))
    return sum(others, start=first)
