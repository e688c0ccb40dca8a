"""PLC: what the model is sure of on a gentle view, it must say of a distorted one too.

Xie et al. 2022, Label-Aware Global Consistency for Multi-Label Learning with Single Positive
Labels, NeurIPS, Eq. 4.

Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative). The paper charges unobserved
labels only. The released program also trains the distorted view on the seen positive and averages
over the selected labels; a seen negative is selected there too.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from plusone.losses.variant import Variant, is_released


def pseudo_label_consistency(
    strong: Tensor, weak: Tensor, y: Tensor, *, delta: float = 0.6, variant: Variant = "paper"
) -> Tensor:
    """Cross-entropy of the distorted view to the confident predictions on the gentle one.

    Args:
        strong: Logits of the strongly augmented view `[B, L]`.
        weak: Logits of the weakly augmented view `[B, L]`; no gradient reaches them.
        y: Observed labels `[B, L]`.
        delta: A prediction of at least delta is a pseudo positive, one of at most 1 - delta a
            pseudo negative, others are left out.
        variant: "paper" (unobserved labels, sum / B) or "released" (seen labels too, mean over
            the selected ones).

    Returns:
        A scalar.

    >>> z = torch.tensor([[2.0, -2.0]])
    >>> round(pseudo_label_consistency(z, z, torch.zeros(1, 2)).item(), 4)
    0.2539
    """
    released = is_released(variant)
    if not 0.5 <= delta <= 1:
        raise ValueError(f"delta must lie between 0.5 and 1, got {delta}")
    p = weak.detach().sigmoid()
    # At p = delta = 0.5 both conditions hold; the first wins.
    target = torch.where(p >= delta, 1.0, 0.0)
    selected = (p >= delta) | (p <= 1 - delta)
    if released:
        target = torch.where(y == 0, target, (y == 1).to(target.dtype))
        selected = selected | (y != 0)
    else:
        selected = selected & (y == 0)
    cost = functional.binary_cross_entropy_with_logits(
        strong, target.to(strong.dtype), reduction="none"
    )
    total = torch.where(selected, cost, 0.0).sum()
    return total / (selected.sum().clamp_min(1) if released else max(len(strong), 1))
