"""Focal and asymmetric losses: easy unobserved labels weigh less.

Lin et al. 2017, Focal Loss for Dense Object Detection, ICCV, https://arxiv.org/abs/1708.02002,
Eq. 4; Ridnik et al. 2021, Asymmetric Loss For Multi-Label Classification, ICCV,
https://arxiv.org/abs/2009.14119 (asymmetric focusing and probability shifting).

Values and gradients of the authors' asymmetric loss were met to 1e-5 (tests/losses).
Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative). A seen negative costs
-log(1 - p) with full weight: neither focused nor shifted.

In the code, v is the logit of being wrong (-z for a positive, z otherwise), q = sigmoid(v), and
r is q with 1 in the places where the focusing factor must be 1.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from plusone.losses.binary import hard_cost
from plusone.losses.closed_form import (
    elementwise,
    flip,
    less,
    softplus,
)
from plusone.losses.picking import few_seen, with_seen


def power(x: Tensor, exponent: float) -> Tensor:
    """Power of a share, by squaring where that is much faster than the general way.

    >>> power(torch.tensor(0.5), 4).item()
    0.0625
    """
    if exponent == 2:
        return x * x
    if exponent == 4:
        return x.square().square_()
    return x.pow(exponent)


def _asymmetric(z: Tensor, y: Tensor, positive: float, negative: float) -> tuple[Tensor, Tensor]:
    t = y.relu()
    v = flip(z, t)
    cost, q = softplus(v), torch.sigmoid(v)
    if positive in (0, negative):
        r = torch.maximum(q, -y if positive else y.abs())
        weight = power(r, negative)
        slope = torch.add(q, less(cost, r), alpha=negative)
    else:
        r = torch.maximum(q, -y)
        weight = torch.lerp(power(r, negative), power(r, positive), t)
        exponent = (t * (positive - negative)).add_(negative)
        slope = torch.addcmul(q, exponent, less(cost, r))
    return cost.mul_(weight), flip(slope.mul_(weight), t)


def _shifted(
    z: Tensor, y: Tensor, positive: float, negative: float, shift: float
) -> tuple[Tensor, Tensor]:
    p = torch.sigmoid(z)
    shifted = (p - shift).relu_()
    rest = torch.rsub(shifted, 1)
    log_rest = rest.log()
    # d/dp = p_m^(g - 1) (p_m / (1 - p_m) - g log(1 - p_m)), and 0 where the shift cut p off.
    slope = torch.div(shifted, rest, out=rest).add_(log_rest, alpha=-negative).mul_(less(p, p))
    if negative == 4:
        square = shifted * shifted
        weight = square * square
        slope.mul_(square.mul_(shifted))
    else:
        weight = power(shifted, negative)
        slope.mul_(weight).div_(shifted.clamp_min_(torch.finfo(p.dtype).tiny))
    loss = log_rest.mul_(weight).neg_()
    focused = partial(_asymmetric, positive=positive, negative=positive)
    seen = focused if positive else _unfocused
    if few_seen(y):
        return with_seen(z, y, (loss, slope), seen)
    is_seen, (seen_loss, seen_slope) = y.abs(), seen(z, y)
    return loss.lerp_(seen_loss, is_seen), slope.lerp_(seen_slope, is_seen)


def _unfocused(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return hard_cost(z, y.relu())


def asymmetric(
    z: Tensor,
    y: Tensor,
    *,
    gamma_neg: float = 4.0,
    gamma_pos: float = 0.0,
    shift: float = 0.0,
) -> Tensor:
    """`asl` and `asl_ps`: p^gamma_neg scales the unobserved labels (Ridnik 2021).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative costs -log(1 - p), unscaled and unshifted.
        gamma_neg: Exponent for unobserved labels; 4 in the ASL paper and in the SPML tables.
        gamma_pos: Exponent of 1 - p for seen positives; 0 in the SPML tables.
        shift: Probability shift m: unobserved labels use max(p - m, 0); 0.05 in `asl_ps`.

    Returns:
        Losses `[B, L]`.

    >>> asymmetric(torch.zeros(1, 1), torch.zeros(1, 1), gamma_neg=1.0).item()
    0.3465735912322998
    """
    if gamma_neg < 0 or gamma_pos < 0 or not 0.0 <= shift < 1.0:
        got = f"{gamma_neg}, {gamma_pos}, {shift}"
        raise ValueError(f"need gamma_neg, gamma_pos >= 0 and 0 <= shift < 1, got {got}")
    if shift > 0:
        formula = partial(_shifted, positive=gamma_pos, negative=gamma_neg, shift=shift)
    else:
        formula = partial(_asymmetric, positive=gamma_pos, negative=gamma_neg)
    return elementwise(z, y, formula)


def focal(z: Tensor, y: Tensor, *, gamma: float = 2.0) -> Tensor:
    """`focal` (FAN): assume negative, each label scaled by (wrong share)^gamma (Lin Eq. 4).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative costs -log(1 - p), unscaled.
        gamma: Focusing exponent; 2 in the paper.

    Returns:
        Losses `[B, L]`.

    >>> focal(torch.zeros(1, 1), torch.ones(1, 1)).item()
    0.1732867956161499
    """
    return asymmetric(z, y, gamma_neg=gamma, gamma_pos=gamma)
