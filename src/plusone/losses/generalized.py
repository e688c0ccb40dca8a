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
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plusone.losses.closed_form import (
    elementwise,
    even_gradient,
    less,
    log_of_sigmoid,
    same_shape,
    working_dtype,
)
from plusone.losses.robust import Parameter
from plusone.losses.variant import Variant, is_released

SMALL = 0.01  # from here on (1 - x^q) / q can be computed as it stands: errors stay below 1e-5


def _power_and_cost(log_x: Tensor, q: float) -> tuple[Tensor, Tensor]:
    """x^q and (1 - x^q) / q, given log x."""
    if q == 0:
        return torch.ones_like(log_x), -log_x
    if q < SMALL:
        fall = (log_x * q).expm1_()
        return fall + 1, fall.mul_(-1 / q)
    powers = (log_x * (q / math.log(2))).exp2_()
    return powers, torch.rsub(powers, 1).mul_(1 / q)


def _robust(
    z: Tensor, y: Tensor, w: float, b: float, mu: float, sigma: float, q: tuple[float, float, float]
) -> tuple[Tensor, Tensor]:
    p = torch.sigmoid(z)
    khat = p.mul(w).add_(b).sigmoid_()
    v = (p - mu).square_().mul_(-0.5 / (sigma**2 * math.log(2))).exp2_()
    return _combined(z, y, p, khat, v, q)[:2]


def _combined(
    z: Tensor, y: Tensor, p: Tensor, khat: Tensor, v: Tensor, q: tuple[float, float, float]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses and slopes; costs of an unobserved label as a positive and as a negative."""
    q1, q2, q3 = q
    log_p = log_of_sigmoid(z, p)
    t = y.relu()
    # A seen positive is a positive for sure, khat = 1, and weighs 1.
    torch.maximum(khat, t, out=khat)
    torch.maximum(v, t, out=v)
    power, cost = _power_and_cost(log_p, q2)
    if q1 == 0 and q2 > 0:
        torch.maximum(power, t, out=power)
        cost.lerp_(-log_p, t)
    elif q1 != q2:
        power1, cost1 = _power_and_cost(log_p, q1)
        power.lerp_(power1, t)
        cost.lerp_(cost1, t)
    if q3 == 1:
        cost3 = p
        slope = less(torch.lerp(p, power.neg_(), khat).mul_(v), p)
    elif q3 == 1.5:
        rest = torch.rsub(p, 1)
        root = rest.sqrt()
        cost3 = torch.mul(rest, root).sub_(1).mul_(-1 / q3)
        slope = root.mul_(p).lerp_(power.neg_(), khat).mul_(v).mul_(rest)
    else:
        power3, cost3 = _power_and_cost(log_p - z, q3)
        slope = power3.mul_(p).lerp_(less(power, p).neg_(), khat).mul_(v)
    loss = torch.lerp(cost3, cost, khat).mul_(v)
    if y.numel() and y.amin() < 0:
        negative = torch.neg(y).relu_()
        loss.lerp_(z - log_p, negative)
        slope.lerp_(p, negative)
    return loss, slope, cost, cost3


def _total(table: Tensor, rows: list[int]) -> Tensor:
    return table.sum(rows) if rows else table


class _Learned(torch.autograd.Function):
    """The same with w, b, mu and sigma as tensors that get gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        y: Tensor,
        w: Tensor,
        b: Tensor,
        mu: Tensor,
        sigma: Tensor,
        q: tuple[float, float, float],
    ) -> Tensor:
        x = z.to(working_dtype(z))
        y = y.to(x.dtype)
        p = torch.sigmoid(x)
        khat, distance = torch.addcmul(b, p, w).sigmoid_(), p - mu
        scale = sigma.pow(-2)
        v = distance.square().mul_(scale * (-0.5 / math.log(2))).exp2_()
        loss, slope, cost, cost3 = _combined(x, y, p, khat, v, q)
        seen = y.abs()  # seen labels teach w, b, mu and sigma nothing
        unseen = less(loss, seen)
        by_khat = cost.sub_(cost3).mul_(v).addcmul_(cost, seen, value=-1).mul_(khat)
        by_khat.addcmul_(by_khat, khat, value=-1)
        ctx.save_for_backward(slope, by_khat, unseen, p, distance, sigma, scale)
        ctx.shapes = w.shape, b.shape, mu.shape, sigma.shape
        return loss.to(z.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slope, by_khat, unseen, p, distance, sigma, scale = ctx.saved_tensors
        if even_gradient(grad) != 1:
            slope, by_khat, unseen = grad * slope, grad * by_khat, grad * unseen
        rows = [0] if max(map(len, ctx.shapes)) < 2 else []  # one number per class: add up first
        by_v = unseen * distance
        tables = (
            _total(by_khat * p, rows),
            _total(by_khat, rows),
            _total(by_v, rows) * scale,
            _total(by_v.mul_(distance), rows) * (scale / sigma),
        )
        found = (x.sum_to_size(shape) for x, shape in zip(tables, ctx.shapes, strict=True))
        return slope.to(grad.dtype), None, *found, None


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
    learned = (
        torch.as_tensor(value, dtype=working_dtype(z), device=z.device)
        for value in (w, b, mu, sigma)
    )
    loss: Tensor = _Learned.apply(z, y, *learned, q)  # type: ignore[no-untyped-call]
    return loss
