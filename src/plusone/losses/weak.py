"""Assumed negatives that count for less: by a weight, or by drawing one of them.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, Section 5.1 (two unnumbered formulas).

Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative, cost -log(1 - p) with full
weight). The authors' program adds 1e-5 inside the logarithms; here they are exact.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from plusone.losses.binary import hard_cost, observed_bce
from plusone.losses.closed_form import elementwise, many_blocks, row_blocks
from plusone.losses.picking import seen_places

FEW = 8  # seen labels of a row that are looked at one by one


def _weighted(z: Tensor, y: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    loss, slope = hard_cost(z, y.relu())
    weight = y.abs().clamp_(min=gamma)
    return loss.mul_(weight), slope.mul_(weight)


def weak_negative(z: Tensor, y: Tensor, *, gamma: float | None = None) -> Tensor:
    """`wan`: assumed negatives weigh gamma (Cole Section 5.1; called DW by Zhou et al. 2022).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative weighs 1, not gamma.
        gamma: Weight in [0, 1] of an unobserved label; 1 / (L - 1) when left out, so that
            together they weigh as much as the single positive.

    Returns:
        Losses `[B, L]`.

    >>> weak_negative(torch.zeros(1, 2), torch.tensor([[1, 0]]), gamma=0.0)[0, 1].item()
    0.0
    """
    if gamma is None:
        gamma = 1 / max(z.shape[-1] - 1, 1)
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma must lie in [0, 1], got {gamma}")
    return elementwise(z, y, partial(_weighted, gamma=gamma))


def sample_negative(y: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """Turns one unobserved label per row, drawn evenly, into a negative (Cole Section 5.1).

    Args:
        y: Observed labels `[B, L]`; left as they are. Seen labels are never drawn, and a row
            without an unobserved label gets none.
        generator: Source of randomness; the global one when left out.

    Returns:
        Labels `[B, L]` in the type of y (int8 for types without a sign).

    >>> sample_negative(torch.tensor([[1, 0]])).tolist()
    [[1, -1]]
    """
    drawn = y.clone() if y.dtype.is_signed else y.to(torch.int8)
    u = torch.rand(len(y), 1, generator=generator, device=y.device, dtype=torch.float64)
    if not many_blocks(y):
        unobserved = drawn == 0
        rank = unobserved.cumsum(1, dtype=torch.int32)
        wanted = (u * rank[:, -1:]).to(torch.int32) + 1  # 1..count
        column = torch.searchsorted(rank, wanted).clamp_(max=y.shape[1] - 1)
        return drawn.scatter_add_(1, column, -unobserved.gather(1, column).to(drawn.dtype))
    for drawn_, u_ in row_blocks(drawn, u):
        rows, columns = _drawn(drawn_, u_[:, 0])
        drawn_[rows, columns] = -1
    return drawn


def _drawn(y: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Rows that have an unobserved label, and the column of the one at the share u of them."""
    at = seen_places(y)
    rows, columns = at // y.shape[1], at % y.shape[1]
    n_seen = rows.bincount(minlength=len(y))
    n_free = y.shape[1] - n_seen
    column = (u * n_free).long()  # among the unobserved labels, from 0
    if len(rows) > FEW * len(y):  # many are seen: count the others
        rank = (y == 0).cumsum(1, dtype=torch.int32)
        column = torch.searchsorted(rank, column.int().unsqueeze(1) + 1).squeeze(1)
    else:  # each seen label at or before the column moves it on by one
        place = torch.arange(len(rows), device=y.device) - (n_seen.cumsum(0) - n_seen)[rows]
        seen = torch.full((len(y), int(n_seen.max())), y.shape[1], device=y.device)
        seen[rows, place] = columns
        for each in seen.unbind(1):
            column = column + (each <= column)
    found = n_free > 0
    return found.nonzero().squeeze(1), column[found]


def sampled_negative(z: Tensor, y: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """`wan_sampled`: one random unobserved label per row is a negative, the rest are ignored.

    With one seen positive per row its expectation is `weak_negative` (Cole Section 5.1).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. Seen negatives cost -log(1 - p) besides the drawn one.
        generator: Source of randomness; the global one when left out.

    Returns:
        Losses `[B, L]`; a new draw at every call.

    >>> sampled_negative(torch.zeros(1, 2), torch.tensor([[1, 0]]))[0, 1].item()
    0.6931471824645996
    """
    return observed_bce(z, sample_negative(y, generator=generator))
