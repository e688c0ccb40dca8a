"""What the selection scores are given, checked once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plusone.metrics.inputs import Array, Bools, Floats, validate

Float64 = NDArray[np.float64]
Ints = NDArray[np.int64]


def seen_positives(probabilities: Array, observed: Array) -> tuple[Floats, Bools]:
    """Probabilities and seen positives, `[N, L]` each, as numpy arrays.

    Raises:
        ValueError: A shape or a value is wrong, or no label is a seen positive.
    """
    values, positive = validate(probabilities, observed)
    if not positive.any():
        raise ValueError("no label is a seen positive, so nothing can be scored.")
    return values, positive


def items_above(values: Floats, positive: Bools) -> Iterator[tuple[int, Float64]]:
    """For each class with a seen positive: how many items stand above each of its seen positives.

    A tied item counts half. Only the other items are counted, the seen positives among them too.

    Args:
        values: Probabilities `[N, L]`.
        positive: Seen positives `[N, L]`.

    Yields:
        The class, and the counts `[n]` of its n seen positives, rising.
    """
    for label in np.flatnonzero(positive.any(axis=0)).tolist():
        column = np.sort(values[:, label])
        own = np.sort(values[positive[:, label], label])[::-1]
        below, upto = (np.searchsorted(column, own, side=side) for side in ("left", "right"))
        yield label, len(column) - upto + (upto - below - 1) / 2


def ranks_in_item(values: Floats, positive: Bools) -> tuple[Ints, Ints, Float64]:
    """Row, class and rank (from 1, ties in the middle) of every seen positive within its item."""
    rows, labels = np.nonzero(positive)
    own, given = values[rows], values[rows, labels][:, None]
    rank = 1 + (own > given).sum(axis=1) + ((own == given).sum(axis=1) - 1) / 2
    return rows, labels, rank
