"""Unobserved labels pay or are paid for the entropy of their prediction.

Zhou et al. 2022, Acknowledging the Unknown for Multi-label Learning with Single Positive Labels,
ECCV, https://arxiv.org/abs/2203.16219, Eq. 3 (the poster writes it with its entropy). The
gradient for an unobserved label is Eq. 31 of Chen et al. 2024 (GR), https://arxiv.org/abs/2405.03501.

Deviation from the authors' program: it adds 1e-5 inside the logarithms; here they are exact.
Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative).
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from plusone.losses.closed_form import elementwise, flip, less, softplus


def _maximization(z: Tensor, y: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    seen = y * y
    # v: logit of being wrong for a seen label; -|z| for the others, where the even entropy
    # H = softplus(v) - v sigmoid(v) has no cancellation.
    v = torch.lerp(z.abs(), y * z, seen).neg_()
    cost, q = softplus(v), torch.sigmoid(v)
    entropy = torch.addcmul(cost, v, q, value=-1)
    loss = torch.sub(cost.mul_(seen), less(entropy, seen), alpha=alpha)
    slope = less(less(q, q).mul_(z), seen)
    return loss, torch.sub(slope.mul_(alpha), q.mul_(y))


def entropy_maximization(z: Tensor, y: Tensor, *, alpha: float = 0.1) -> Tensor:
    """`em`: unobserved labels cost -alpha H(p), with the gradient through all of H (Zhou Eq. 3).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative costs -log(1 - p) with full weight and no
            entropy; `alpha=0` ignores unobserved labels.
        alpha: Weight of the entropy; 0.2 VOC, 0.1 COCO and NUS, 0.01 CUB in the paper.

    Returns:
        Losses `[B, L]`, negative where the label is unobserved.

    >>> entropy_maximization(torch.zeros(1, 1), torch.zeros(1, 1), alpha=1.0).item()
    -0.6931471824645996
    """
    return elementwise(z, y, partial(_maximization, alpha=alpha))


def _minimization(z: Tensor, y: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    t, seen = y.relu(), y.abs()
    v = flip(z, t)
    cost, q = softplus(v), torch.sigmoid(v)
    entropy = less(torch.addcmul(cost, v, q, value=-1), seen)
    slope = torch.sub(q, less(less(q, q).mul_(v), seen), alpha=alpha)
    return torch.add(cost, entropy, alpha=alpha), flip(slope, t)


def entropy_minimization(
    z: Tensor, y: Tensor, *, alpha: float = 0.1, negatives: bool = True
) -> Tensor:
    """`entmin`: `an` plus alpha H(p) on the unobserved labels, the opposite sign of `em`.

    Zhou et al. report it as a failure (EntMin in their table); it is here as that comparison.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative costs -log(1 - p) and no entropy.
        alpha: Weight of the entropy.
        negatives: False drops the assumed negatives, so that an unobserved label costs alpha H(p)
            alone: exactly `em` with its sign turned.

    Returns:
        Losses `[B, L]`.

    >>> entropy_minimization(torch.zeros(1, 1), torch.zeros(1, 1), alpha=1.0).item() / 2
    0.6931471824645996
    """
    if not negatives:
        return entropy_maximization(z, y, alpha=-alpha)
    return elementwise(z, y, partial(_minimization, alpha=alpha))
