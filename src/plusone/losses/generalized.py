"""The GR loss: soft pseudo-labels, confidence weights and robust costs in one formula.

Chen et al. 2024, Boosting Single Positive Multi-label Classification with Generalized Robust Loss,
IJCAI, https://arxiv.org/abs/2405.03501, Eq. 4, 5, 7, 11, 14; gradient Eq. 18.

Deviations in the authors' program: the seen positive costs -log p (`variant="released"`), and
1e-7 is added inside the logarithm (not kept). Labels y are 1 (seen positive), 0 (unobserved) and
-1 (seen negative, cost -log(1 - p) with v = 1).
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from plusone.losses.closed_form import (
    elementwise,
    less,
    log_of_sigmoid,
    same_shape,
    softplus,
    working_dtype,
)
from plusone.losses.robust import (
    Parameter,
    confidence_weight,
    false_negative_probability,
    generalized_cross_entropy,
)
from plusone.losses.variant import Variant, is_released


def _power_and_cost(log_x: Tensor, q: float) -> tuple[Tensor, Tensor]:
    """x^q and (1 - x^q) / q, given log x."""
    if q == 0:
        return torch.ones_like(log_x), -log_x
    fall = (log_x * q).expm1_()
    return fall + 1, fall.mul_(-1 / q)


def _robust(
    z: Tensor, y: Tensor, w: float, b: float, mu: float, sigma: float, q: tuple[float, float, float]
) -> tuple[Tensor, Tensor]:
    q1, q2, q3 = q
    p = torch.sigmoid(z)
    log_p = log_of_sigmoid(z, p)
    khat = p.mul(w).add_(b).sigmoid_()
    v = (p - mu).square_().mul_(-0.5 / (sigma**2 * math.log(2))).exp2_()
    power2, cost2 = _power_and_cost(log_p, q2)
    if q3 == 1:
        slope3, cost3 = less(p, p), p
    else:
        power3, cost3 = _power_and_cost(log_p - z, q3)
        slope3 = power3.mul_(p)
    slope2 = less(power2, p).neg_()
    slope1, cost1 = slope2, cost2
    if q1 != q2:
        power1, cost1 = _power_and_cost(log_p, q1)
        slope1 = less(power1, p).neg_()
    t, seen = y.relu(), y.abs()
    v = less(v, seen)  # only unobserved labels are left with a weight
    negative = seen.sub_(t)
    loss = torch.lerp(cost3, cost2, khat).mul_(v)
    loss.addcmul_(t, cost1).addcmul_(negative, z - log_p)
    slope = torch.lerp(slope3, slope2, khat).mul_(v)
    return loss, slope.addcmul_(t, slope1).addcmul_(negative, p)


def generalized_robust(
    z: Tensor,
    y: Tensor,
    *,
    w: Parameter,
    b: Parameter,
    mu: Parameter = 0.8,
    sigma: Parameter = 0.5,
    q1: float = 0.01,
    q2: float = 0.01,
    q3: float = 1.0,
    variant: Variant = "paper",
) -> Tensor:
    """`gr`: v [s L1 + (1 - s) (khat L2 + (1 - khat) L3)], khat and v on stopped p (GR Eq. 4, 5).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative costs -log(1 - p) with v = 1: it is no
            guess, so the robust L3 is not used for it.
        w: Slope of khat; numbers, or tensors that receive gradients (`gr_learned`).
        b: Intercept of khat, as w.
        mu: Centre of v.
        sigma: Width of v.
        q1: Robustness for seen positives; 0.01 in the paper.
        q2: Robustness for unobserved labels as positives; 0.01 in the paper.
        q3: Robustness for unobserved labels as negatives; 1 (CUB 1.5) in the paper.
        variant: "released" charges seen positives -log p, whatever q1 says.

    Returns:
        Losses `[B, L]`.

    >>> generalized_robust(torch.zeros(1, 1), torch.zeros(1, 1), w=0.0, b=-90.0, mu=0.5).item()
    0.5
    """
    q = (0.0 if is_released(variant) else q1, q2, q3)
    if min(q) < 0:
        raise ValueError(f"q1, q2 and q3 must not be negative, got {q1}, {q2}, {q3}")
    numbers = [value for value in (w, b, mu, sigma) if not isinstance(value, Tensor)]
    if len(numbers) == 4:
        w_, b_, mu_, sigma_ = numbers
        return elementwise(z, y, partial(_robust, w=w_, b=b_, mu=mu_, sigma=sigma_, q=q))
    same_shape(z, y)
    x = z.to(working_dtype(z))
    p = torch.sigmoid(x.detach())
    khat = false_negative_probability(p, w=w, b=b)
    v = confidence_weight(p, mu=mu, sigma=sigma)
    unobserved = torch.lerp(
        generalized_cross_entropy(-x, q=q3), generalized_cross_entropy(x, q=q2), khat
    )
    seen = torch.where(y > 0, generalized_cross_entropy(x, q=q[0]), softplus(x))
    return torch.where(y == 0, v * unobserved, seen).to(z.dtype)
