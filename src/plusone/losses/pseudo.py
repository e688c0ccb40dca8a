"""EM with negative pseudo-labels.

Zhou et al. 2022, Acknowledging the Unknown for Multi-label Learning with Single Positive Labels,
ECCV, https://arxiv.org/abs/2203.16219, Eq. 8 (asymmetric pseudo-labelling).
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from plusone.losses.closed_form import elementwise, less


def _pseudo(z: Tensor, y: Tensor, soft: Tensor, alpha: float, beta: float) -> tuple[Tensor, Tensor]:
    size, seen = z.abs(), y.abs()
    q = torch.neg(size).sigmoid_()  # the smaller of p and 1 - p
    cost = torch.neg(q).log1p_().neg_()  # softplus(-|z|): what both sides have in common
    labelled = less(torch.ge(soft, 0, out=torch.empty_like(z)), seen)
    target = torch.addcmul(y.relu(), labelled, soft)
    weight = torch.add(seen, labelled, alpha=beta)
    rest = torch.rsub(seen.add_(labelled), 1)
    entropy = torch.addcmul(cost, size, q).mul_(rest)
    loss = z.relu().addcmul_(target, z, value=-1).add_(cost).mul_(weight)
    slope = less(q, q).mul_(z).mul_(rest).mul_(alpha)
    slope.addcmul_(torch.sigmoid(z).sub_(target), weight)
    return loss.sub_(entropy, alpha=alpha), slope


def entropy_with_pseudo_labels(
    z: Tensor, y: Tensor, soft: Tensor, *, alpha: float = 0.1, beta: float = 0.9
) -> Tensor:
    """`em`, except that pseudo-labelled entries cost beta times cross-entropy to a soft label.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`; seen labels cost as in `em`.
        soft: Soft labels `[B, L]` in [0, 1]; -1 where there is none. Ignored at seen labels.
        alpha: Weight of the entropy.
        beta: Weight of the pseudo-labels.

    Returns:
        Losses `[B, L]`.

    >>> entropy_with_pseudo_labels(
    ...     torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1, 1), beta=1.0
    ... ).item()
    0.6931471824645996
    """
    return elementwise(z, y, partial(_pseudo, alpha=alpha, beta=beta), soft)
