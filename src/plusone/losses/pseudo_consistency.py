"""PLC: what the model is sure of on a gentle view, it must say of a distorted one too.

Xie et al. 2022, Label-Aware Global Consistency for Multi-Label Learning with Single Positive
Labels, NeurIPS, Eq. 4.

Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative). The paper charges unobserved
labels only. The released program also trains the distorted view on the seen positive and averages
over the selected labels; a seen negative is selected there too.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from plusone.losses.binary import hard_cost
from plusone.losses.closed_form import (
    FAR,
    elementwise,
    hide,
    less,
    row_blocks,
    same_shape,
    working_dtype,
)
from plusone.losses.fused import reduced
from plusone.losses.variant import Variant, is_released


def _level(delta: float) -> float:
    """The logit of delta: p >= delta from it on, p <= 1 - delta down from minus it."""
    return math.log(delta / (1 - delta)) if delta < 1 else FAR / 2


def _known(weak: Tensor, y: Tensor) -> Tensor:
    """The logits of the weak view, far from zero on the right side where the label was seen."""
    return torch.add(weak, y, alpha=FAR)


def _confident(z: Tensor, y: Tensor, weak: Tensor, level: float) -> tuple[Tensor, Tensor]:
    target = torch.ge(weak, level, out=torch.empty_like(weak))
    selected = weak.abs()
    selected = less(torch.ge(selected, level, out=selected), y.abs())
    loss, slope = hard_cost(z, target)
    return loss.mul_(selected), slope.mul_(selected)


def _confident_or_seen(z: Tensor, y: Tensor, weak: Tensor, level: float) -> tuple[Tensor, Tensor]:
    known = _known(weak, y)
    target = torch.ge(known, level, out=torch.empty_like(known))
    known.abs_()
    return hard_cost(hide(z, torch.lt(known, level, out=known)), target)


def _n_selected(weak: Tensor, y: Tensor, level: float) -> Tensor:
    dtype = working_dtype(weak)
    known = (_known(weak_.to(dtype), y_.to(dtype)).abs_() for weak_, y_ in row_blocks(weak, y))
    return torch.stack([torch.ge(each, level, out=each).sum() for each in known]).sum()


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
    level = _level(delta)
    formula = partial(_confident_or_seen if released else _confident, level=level)

    def table(z: Tensor, y: Tensor, weak: Tensor) -> Tensor:
        return elementwise(z, y, formula, weak)

    if not released:
        return reduced(table, strong, y, weak, reduction="item")
    count = _n_selected(weak, y, level).clamp_min(1)
    return (reduced(table, strong, y, weak, reduction="sum") / count).to(strong.dtype)
