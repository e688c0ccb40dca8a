"""The folds of a closed form: its probabilities are calibrated on items it has not learned from."""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.data.groups import random_folds
from plusone.seeds import generator

FOLDS = 5
MANY = 20_000  # items; with more, there are two folds
PER_COLUMN = 1000  # items for each column of the vectors, from which on there are no folds


def n_folds(n_items: int, width: int) -> int:
    """How many folds there are.

    With very many items for each column of the vectors, an item hardly reaches its own
    leave-one-out prediction through the targets of others, and there are none.

    Args:
        n_items: How many items.
        width: Length of their vectors.
    """
    if n_items >= PER_COLUMN * width:
        return 0
    return min(FOLDS if n_items <= MANY else 2, n_items)


def fold_of(n_items: int, width: int, groups: Tensor | None = None) -> Tensor | None:
    """The fold of each item, int64 `[n]`; items of a group are in one fold.

    None if there are no folds, or one group.

    Args:
        n_items: How many items there are.
        width: Length of their vectors.
        groups: Number of each item's group, from 0, int64 `[n]`.
    """
    folds = n_folds(n_items, width)
    most = folds if groups is None else min(folds, int(groups.max()) + 1)
    if most < 2:
        return None
    fold = random_folds(
        n_items,
        most,
        lambda count: torch.randperm(count, generator=generator("folds of a closed form")),
        None if groups is None else groups.numpy(),
    )
    return torch.from_numpy(fold)
