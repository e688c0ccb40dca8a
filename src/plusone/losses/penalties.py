"""Norms of weights, for the `l1r` and `l2r` comparisons.

Zhou et al. 2022, Acknowledging the Unknown, ECCV, https://arxiv.org/abs/2203.16219: `an` plus
lambda times a norm of the classifier's weights. No labels enter here, so seen negatives are the
business of the loss that the penalty is added to.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def _list(weights: Tensor | Iterable[Tensor]) -> list[Tensor]:
    found = [weights] if isinstance(weights, Tensor) else list(weights)
    if not found:
        raise ValueError("a penalty needs at least one weight tensor, got none")
    return found


def l1_penalty(weights: Tensor | Iterable[Tensor]) -> Tensor:
    """Sum of the absolute values (L1R in the table of Zhou et al.).

    Args:
        weights: One tensor of any shape, or several.

    Returns:
        A scalar.

    >>> l1_penalty(torch.tensor([3.0, -4.0])).item()
    7.0
    """
    return torch.stack([weight.abs().sum() for weight in _list(weights)]).sum()


def squared_l2_penalty(weights: Tensor | Iterable[Tensor]) -> Tensor:
    """Sum of the squares (L2R in the table of Zhou et al.).

    Args:
        weights: One tensor of any shape, or several.

    Returns:
        A scalar.

    >>> squared_l2_penalty(torch.tensor([3.0, -4.0])).item()
    25.0
    """
    return torch.stack([weight.square().sum() for weight in _list(weights)]).sum()
