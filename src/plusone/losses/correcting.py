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

import torch
from torch import Tensor

from plusone.losses.binary import assume_negative
from plusone.losses.closed_form import same_shape, softplus, working_dtype


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
    same_shape(z, y)
    unobserved = y == 0
    # Rounded first: 0.1 * 240 is a little more than 24 in floating point.
    count = min(math.ceil(round(share * z.numel(), 6)), int(unobserved.sum()))
    if count == 0:
        return torch.zeros_like(unobserved)
    # The assume-negative loss grows with the logit, so the logits themselves can be compared.
    level = torch.where(unobserved, z.detach(), -torch.inf)
    last = torch.topk(level.flatten(), count, sorted=True).values[-1]
    return unobserved & (level >= last)


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
    marked = large_losses(z, y, share=share)
    if rule == "reject":
        return assume_negative(z, y).masked_fill(marked, 0.0)
    if rule == "correct":
        return assume_negative(z, torch.where(marked, torch.ones_like(y), y))
    raise ValueError(f"rule must be 'reject' or 'correct', got {rule!r}")


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
    same_shape(z, y)
    x = z.to(working_dtype(z))
    seen = y > 0
    x = torch.where(seen, x - margin, x)
    positive = seen | ((y == 0) & (torch.sigmoid(x.detach()) > tau)) if correct else seen
    wrong = torch.where(positive, -x, x)  # the logit of being wrong
    cost = softplus(wrong)
    focus = torch.exp(gamma * (wrong - cost))  # sigmoid(wrong) ** gamma
    return torch.where(y < 0, cost, focus * cost).to(z.dtype)
