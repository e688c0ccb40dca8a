"""Which items are held out: to choose the epoch and the thresholds on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError


def held_out(
    labels: LabelMatrix, fraction: float, chance: np.random.RandomState
) -> npt.NDArray[np.bool_]:
    """A random share of the items, bool `[N]`, without the last seen positive of any class.

    Items with a seen positive come first: the others say nothing about an epoch. At least one item
    is held out and at least one is not.

    Args:
        labels: What was seen.
        fraction: The share, in (0, 1).
        chance: Decides the draw.

    >>> held_out(LabelMatrix.from_lists([[0], [0], [1]], 2), 0.4, np.random.RandomState(0)).sum()
    np.int64(1)
    """
    if not 0 < fraction < 1:
        raise InputError(f"validation_fraction must be between 0 and 1, not {fraction}")
    if len(labels) < 2:
        raise InputError(
            f"{len(labels)} sample is too few: one part is learned from and another is held out"
        )
    wanted = min(max(1, round(fraction * len(labels))), len(labels) - 1)
    left = labels.per_class(1)
    order = chance.permutation(len(labels))
    order = order[np.argsort(labels.per_item(1)[order] == 0, kind="stable")]
    held = np.zeros(len(labels), dtype=np.bool_)
    for item in order:
        found = labels.positives(item)
        if (left[found] > 1).all():
            left[found] -= 1
            held[item] = True
            wanted -= 1
            if not wanted:
                break
    if not (held & (labels.per_item(1) > 0)).any():
        # Every class was seen once: one of them has to do without.
        held[order[0]] = True
    return held
