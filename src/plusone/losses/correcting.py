"""Losses that reject or correct assumed negatives the model disagrees with.

Kim et al. 2022, Large Loss Matters in Weakly Supervised Multi-Label Classification, CVPR,
https://arxiv.org/abs/2206.03740 (`large_loss`). Zhang et al. 2021, Simple and Robust Loss Design
for Multi-Label Learning with Missing Labels, https://arxiv.org/abs/2112.07368 (`self_corrected`).

Values and gradients of the authors' programs are met to 1e-5. Labels y are 1 (seen positive), 0
(unobserved) and -1 (seen negative); a seen negative is never rejected or corrected and costs
-log(1 - p).
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from plusone.losses.binary import hard_cost
from plusone.losses.closed_form import (
    FAR,
    above,
    elementwise,
    flip,
    hide,
    less,
    row_blocks,
    same_shape,
    softplus,
)
from plusone.losses.focal import power

FOLDS = 8  # logits of which only the largest is looked at first
SAMPLE = 1 << 14  # entries that tell roughly where the large ones begin


def large_loss_level(z: Tensor, y: Tensor, *, share: float) -> float:
    """The smallest logit among the unobserved labels with the largest assume-negative losses.

    The loss grows with the logit, so the logits themselves can be compared. A sample tells where
    the large ones begin; only what lies above is sorted.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`.
        share: Share of the B x L labels that are large; their number is rounded up.

    Returns:
        The level; infinite if there is no such label.

    >>> large_loss_level(torch.tensor([[3.0, 2.0, 9.0]]), torch.tensor([[0, 0, 1]]), share=0.3)
    3.0
    """
    same_shape(z, y)
    # Rounded first: 0.1 * 240 is a little more than 24 in floating point.
    count = min(math.ceil(round(share * z.numel(), 6)), z.numel())
    if count == 0:
        return math.inf
    z = z.detach()
    for start in _starts(z, y, count):
        high = torch.cat([_unobserved_from(start, *block) for block in row_blocks(z, y)])
        if len(high) >= count:
            return float(torch.topk(high, count, sorted=False).values.min())
    hidden = z.masked_fill(y != 0, -math.inf).flatten()
    level = float(torch.topk(hidden, count, sorted=False).values.min())
    if level > -math.inf:
        return level
    unobserved = z[y == 0]  # fewer than wanted: all of them
    return float(unobserved.min()) if len(unobserved) else math.inf


def _starts(z: Tensor, y: Tensor, count: int) -> list[float]:
    """A level below which the search need not look, most likely; none if it would not help."""
    step = max(z.numel() // SAMPLE, 1)
    step += step % z.shape[1] == 0  # not always the same class
    expected = count / step
    wanted = int(expected + 5 * math.sqrt(expected)) + 8  # of the sample
    if step < 4 or wanted > SAMPLE // 4:
        return []
    sample = z.flatten()[::step].masked_fill(y.flatten()[::step] != 0, -math.inf)
    return [float(torch.topk(sample, wanted, sorted=False).values.min())]


def _unobserved_from(start: float, z: Tensor, y: Tensor) -> Tensor:
    """The logits of a block's unobserved labels that reach a level."""
    z, y = z.flatten(), y.flatten()
    rest = len(z) % FOLDS
    near, labels = [z[:rest]], [y[:rest]]
    if len(z) > rest:  # whole columns of a fold lie below: their largest tells
        z, y = z[rest:].view(FOLDS, -1), y[rest:].view(FOLDS, -1)
        columns = (z.amax(0) >= start).nonzero().squeeze(1)
        near.append(z.index_select(1, columns).flatten())
        labels.append(y.index_select(1, columns).flatten())
    high, label = torch.cat(near), torch.cat(labels)
    return high[(high >= start) & (label == 0)]


def large_losses(z: Tensor, y: Tensor, *, share: float) -> Tensor:
    """Which unobserved labels have the largest assume-negative losses of the batch.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`.
        share: Share of the B x L labels to mark; their number is rounded up. Ties with the last
            one marked are marked too, as in the authors' program.

    Returns:
        bool `[B, L]`.

    >>> large_losses(torch.tensor([[3.0, 2.0, 9.0]]), torch.tensor([[0, 0, 1]]), share=0.3).tolist()
    [[True, False, False]]
    """
    return (y == 0) & (z.detach() >= large_loss_level(z, y, share=share))


def _large(z: Tensor, y: Tensor, level: float, rule: str) -> tuple[Tensor, Tensor]:
    t = y.relu()
    unobserved = torch.addcmul(z, y, y, value=-FAR)
    marked = torch.ge(unobserved, level, out=unobserved)
    if rule == "correct":
        return hard_cost(z, t.add_(marked))
    return hard_cost(hide(z, marked), t)


def large_loss_from(z: Tensor, y: Tensor, *, level: float, rule: str = "reject") -> Tensor:
    """`large_loss` where the level of the batch is known; no row depends on another.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`.
        level: Unobserved labels with a logit of at least this are affected.
        rule: As in `large_loss`.

    Returns:
        Losses `[B, L]`.

    >>> large_loss_from(torch.zeros(1, 2), torch.tensor([[1, 0]]), level=0.0)[0, 1].item()
    0.0
    """
    if rule not in ("reject", "correct"):
        raise ValueError(f"rule must be 'reject' or 'correct', got {rule!r}")
    return elementwise(z, y, partial(_large, level=level, rule=rule))


def large_loss(z: Tensor, y: Tensor, *, share: float, rule: str = "reject") -> Tensor:
    """`ll_r`, `ll_ct`: `an`, with the largest losses of unobserved labels dropped or flipped.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`.
        share: Share of the batch's labels that is affected, see `large_losses`.
        rule: "reject" charges nothing for them, "correct" charges them as positives.

    Returns:
        Losses `[B, L]`.

    >>> large_loss(torch.zeros(1, 2), torch.tensor([[1, 0]]), share=0.5)[0, 1].item()
    0.0
    """
    return large_loss_from(z, y, level=large_loss_level(z, y, share=share), rule=rule)


def _corrected(
    z: Tensor, y: Tensor, tau: float, margin: float, gamma: float, correct: bool
) -> tuple[Tensor, Tensor]:
    t = y.relu()
    x = torch.sub(z, t, alpha=margin)
    p = torch.sigmoid(x)
    if correct:
        t.add_(less(above(p, tau), y.abs()))
    cost, q = softplus(flip(x, t)), p.sub_(t).abs_()  # q: the share of being wrong
    r = torch.maximum(q, -y)
    weight = power(r, gamma)
    slope = torch.add(q, less(cost, r), alpha=gamma).mul_(weight)
    return cost.mul_(weight), flip(slope, t)


def self_corrected(
    z: Tensor,
    y: Tensor,
    *,
    tau: float = 0.6,
    margin: float = 1.0,
    gamma: float = 2.0,
    correct: bool = True,
) -> Tensor:
    """`splc`: confident unobserved labels count as positives, in a focal loss with a margin.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A positive costs (1 - p)^gamma lp, at the logit z - margin if
            it was seen and at z if it was found; other unobserved labels cost p^gamma ln; a seen
            negative costs -log(1 - p).
        tau: Probability above which an unobserved label counts as a positive.
        margin: Margin of the seen positives.
        gamma: Focusing exponent.
        correct: False in the first epoch, when predictions are not to be trusted yet.

    Returns:
        Losses `[B, L]`.

    >>> self_corrected(torch.tensor([[4.0]]), torch.zeros(1, 1)).item() < 1e-4
    True
    """
    formula = partial(_corrected, tau=tau, margin=margin, gamma=gamma, correct=correct)
    return elementwise(z, y, formula)
