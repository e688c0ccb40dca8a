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

from plusone.losses._logits import by_state, log_probabilities, on_logits
from plusone.losses.focusing import focal_cost


def large_losses(z: Tensor, y: Tensor, *, share: float) -> Tensor:
    """Which unobserved labels have the largest assume-negative losses of the batch.

    The loss grows with the logit, so the logits themselves are compared.

    Args:
        z: Logits `[..., B, L]`; leading dimensions are independent runs.
        y: Observed labels `[..., B, L]`.
        share: Share of the B x L labels to mark; their number is rounded up. Ties with the last
            one marked are marked too, as in the authors' program.

    Returns:
        bool `[..., B, L]`.

    >>> large_losses(torch.tensor([[3.0, 2.0, 9.0]]), torch.tensor([[0, 0, 1]]), share=0.3).tolist()
    [[True, False, False]]
    """
    unobserved = y == 0
    size = z.shape[-2] * z.shape[-1]
    # Rounded first: 0.1 * 240 is a little more than 24 in floating point.
    count = min(math.ceil(round(share * size, 6)), size)
    if count == 0:
        return torch.zeros_like(unobserved)
    candidates = z.detach().masked_fill(~unobserved, -torch.inf).flatten(-2)
    level = candidates.topk(count, sorted=False).values.amin(-1)
    return unobserved & (z.detach() >= level[..., None, None])


@on_logits
def large_loss(z: Tensor, y: Tensor, *, share: float, rule: str = "reject") -> Tensor:
    """`ll_r`, `ll_ct`: `an`, with the largest losses of unobserved labels dropped or flipped.

    Args:
        z: Logits `[..., B, L]`; leading dimensions are independent runs.
        y: Observed labels `[..., B, L]`.
        share: Share of the batch's labels that is affected, see `large_losses`.
        rule: "reject" charges nothing for them, "correct" charges them as positives.

    Returns:
        Losses `[..., B, L]`.

    >>> large_loss(torch.zeros(1, 2), torch.tensor([[1, 0]]), share=0.5)[0, 1].item()
    0.0
    """
    if rule not in ("reject", "correct"):
        raise ValueError(f"rule must be 'reject' or 'correct', got {rule!r}")
    log_p, log_not_p = log_probabilities(z)
    large = large_losses(z, y, share=share)
    unobserved = torch.where(large, -log_p if rule == "correct" else 0.0, -log_not_p)
    return by_state(y, positive=-log_p, unobserved=unobserved, negative=-log_not_p)


@on_logits
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
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A positive costs (1 - p)^gamma * -log p, at the logit
            z - margin if it was seen and at z if it is a confident prediction; other unobserved
            labels cost p^gamma * -log(1 - p); a seen negative costs -log(1 - p).
        tau: Probability above which an unobserved label counts as a positive.
        margin: Margin of the seen positives.
        gamma: Focusing exponent.
        correct: False in the first epoch, when predictions are not to be trusted yet.

    Returns:
        Losses `[..., L]`.

    >>> self_corrected(torch.tensor([[4.0]]), torch.zeros(1, 1)).item() < 1e-4
    True
    """
    log_p, log_not_p = log_probabilities(z)
    unobserved = focal_cost(log_not_p, log_p, gamma)
    if correct:
        positive = focal_cost(log_p, log_not_p, gamma)
        unobserved = torch.where(torch.sigmoid(z) > tau, positive, unobserved)
    return by_state(
        y,
        positive=focal_cost(*log_probabilities(z - margin), gamma),
        unobserved=unobserved,
        negative=-log_not_p,
    )
