"""Assumed negatives that count for less: by a weight, or by drawing one of them.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, Section 5.1 (two unnumbered formulas).

Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative, cost -log(1 - p) with full
weight). The authors' program adds 1e-5 inside the logarithms; here they are exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses.binary import observed_bce, weighted_bce
from plusone.losses.closed_form import row_blocks, working_dtype


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
    y = y.to(working_dtype(z))
    return weighted_bce(z, y.relu(), y.abs().clamp_(min=gamma))


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
    for drawn_, u_ in row_blocks(drawn, u.expand_as(y)):
        unobserved = drawn_ == 0
        rank = unobserved.cumsum(1, dtype=torch.int32)
        wanted = (u_[:, :1] * rank[:, -1:]).to(torch.int32) + 1  # 1..count
        column = torch.searchsorted(rank, wanted).clamp_(max=y.shape[1] - 1)
        drawn_.scatter_add_(1, column, -unobserved.gather(1, column).to(drawn.dtype))
    return drawn


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
