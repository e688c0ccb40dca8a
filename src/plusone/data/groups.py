"""Groups of items that belong together: clips of a recording, photos of an album, pages of a text.

Items of a group resemble each other, so a model that saw one of them knows the others. A figure on
held-out items is honest only if no group is divided: some of it learned from, the rest held out.
The functions here draw whole groups. Groups of one item each are drawn as items without groups are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Permute = Callable[[int], npt.ArrayLike]  # n -> a random permutation of range(n)


def group_numbers(groups: npt.ArrayLike) -> Ints:
    """The number of each item's group, `[N]`, in order of first appearance.

    >>> group_numbers(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    _, first, inverse = np.unique(np.asarray(groups), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def random_items(
    n_items: int, size: int, permute: Permute, groups: npt.ArrayLike | None = None
) -> Ints:
    """Rows of `size` random items; larger sizes contain smaller ones.

    If items have groups `[N]`, whole groups are drawn, at least one and not all, so that the number
    of items comes close to `size`.

    >>> random_items(5, 2, np.arange, ["a", "a", "a", "b", "c"]).tolist()
    [0, 1, 2]
    """
    if groups is None or not n_items:
        return np.asarray(permute(n_items), dtype=np.int64)[:size]
    number = group_numbers(groups)
    sizes = np.bincount(number)
    order = np.asarray(permute(len(sizes)), dtype=np.int64)
    totals = np.cumsum(sizes[order])
    count = int(np.abs(totals - size).argmin()) + 1
    return np.flatnonzero(np.isin(number, order[: min(count, max(len(order) - 1, 1))]))


def random_folds(
    n_items: int, folds: int, permute: Permute, groups: npt.ArrayLike | None = None
) -> Ints:
    """The random fold of each item, `[N]`; at most as many folds as items, or groups.

    If items have groups `[N]`, those of a group are in one fold: the largest groups come first,
    each into the fold with the fewest items.

    >>> random_folds(5, 2, np.arange, ["a", "a", "a", "b", "c"]).tolist()
    [0, 0, 0, 1, 1]
    """
    if groups is None:
        return np.asarray(permute(n_items), dtype=np.int64) % folds
    number = group_numbers(groups)
    sizes = np.bincount(number)
    place = np.asarray(permute(len(sizes)), dtype=np.int64)
    fold = np.empty(len(sizes), dtype=np.int64)
    filled = [(0, each) for each in range(folds)]
    for group in np.lexsort((place, -sizes)).tolist():
        items, each = filled[0]
        fold[group] = each
        heapq.heapreplace(filled, (items + int(sizes[group]), each))
    return fold[number]
