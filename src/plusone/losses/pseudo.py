"""EM with negative pseudo-labels.

Zhou et al. 2022, Acknowledging the Unknown for Multi-label Learning with Single Positive Labels,
ECCV, https://arxiv.org/abs/2203.16219, Eq. 8 (asymmetric pseudo-labelling).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from plusone.losses.entropy import entropy_maximization


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
    labelled = (y == 0) & (soft >= 0)
    target = torch.where(labelled, soft, 0.0).to(z.dtype)
    pseudo = binary_cross_entropy_with_logits(z, target, reduction="none")
    return torch.where(labelled, beta * pseudo, entropy_maximization(z, y, alpha=alpha))
