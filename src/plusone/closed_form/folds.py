"""The folds of a closed form: its probabilities are calibrated on items it has not learned from."""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.data.groups import random_folds
from plusone.seeds import generator

FOLDS = 5
MANY = 20_000  # items; with more, there are two folds


def fold_of(n_items: int, groups: Tensor | None = None) -> Tensor | None:
    """The fold of each item, int64 `[n]`; items of a group are in one fold.

    None if there is one item, or one group.

    Args:
        n_items: How many there are.
        groups: Number of each item's group, from 0, int64 `[n]`.
    """
    most = n_items if groups is None else int(groups.max()) + 1
    if most < 2:
        return None
    fold = random_folds(
        n_items,
        min(FOLDS if n_items <= MANY else 2, most),
        lambda count: torch.randperm(count, generator=generator("folds of a closed form")),
        None if groups is None else groups.numpy(),
    )
    return torch.from_numpy(fold)
