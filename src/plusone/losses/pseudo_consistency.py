"""PLC: what the model is sure of on a gentle view, it must say of a distorted one too.

Xie et al. 2022, Label-Aware Global Consistency for Multi-Label Learning with Single Positive
Labels, NeurIPS, Eq. 4.

Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative). The paper charges unobserved
labels only. The released program also trains the distorted view on the seen positive and averages
over the selected labels; a seen negative is selected there too.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from plusone.losses.binary import hard_cost
from plusone.losses.closed_form import elementwise, less, row_blocks, same_shape, working_dtype
from plusone.losses.fused import reduced
from plusone.losses.variant import Variant, is_released


def _sides(weak: Tensor, y: Tensor, delta: float, released: bool) -> tuple[Tensor, Tensor]:
    """Targets 0 or 1, and which labels are selected, as numbers 0 or 1."""
    p = torch.sigmoid(weak)
    # At p = delta = 0.5 both conditions hold; the first wins.
    high = torch.ge(p, delta, out=torch.empty_like(p))
    selected = torch.maximum(high, torch.le(p, 1 - delta, out=p))
    seen = y.abs()
    if released:
        return torch.maximum(less(high, seen), y), torch.maximum(selected, seen)
    return high, less(selected, seen)


def _confident(
    z: Tensor, y: Tensor, weak: Tensor, delta: float, released: bool
) -> tuple[Tensor, Tensor]:
    target, selected = _sides(weak, y, delta, released)
    loss, slope = hard_cost(z, target)
    return loss.mul_(selected), slope.mul_(selected)


def _n_selected(weak: Tensor, y: Tensor, delta: float) -> Tensor:
    dtype = working_dtype(weak)
    return torch.stack(
        [
            _sides(weak_.to(dtype), y_.to(dtype), delta, released=True)[1].sum()
            for weak_, y_ in row_blocks(weak, y)
        ]
    ).sum()


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
    weak = weak.detach()
    same_shape(weak, y)
    formula = partial(_confident, delta=delta, released=released)

    def table(z: Tensor, y: Tensor, weak: Tensor) -> Tensor:
        return elementwise(z, y, formula, weak)

    if not released:
        return reduced(table, strong, y, weak, reduction="item")
    count = _n_selected(weak, y, delta).clamp_min(1)
    return (reduced(table, strong, y, weak, reduction="sum") / count).to(strong.dtype)
