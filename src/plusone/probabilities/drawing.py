"""Which items to audit: where an audit tells most about the labels that would be accepted.

An audit of items drawn evenly spends most of its answers on labels that nobody would accept. So
items are drawn with a chance that grows with the number of probable labels they may be missing, and
count in all that is computed from the audit by one over that chance (Horvitz and Thompson 1952).
"""

from __future__ import annotations

import numpy as np

from plusone.probabilities.scores import Floats, Ints
from plusone.probabilities.unseen_labels import Calibrated

PROBABLE = 0.5  # labels from this probability on count
EVENLY = 0.5  # share of the audit that is drawn evenly


def draw_audit(calibrated: Calibrated, number: int, seed: int = 0) -> tuple[Ints, Floats]:
    """Items to audit, and the weight of each.

    Systematic sampling: items in random order, laid end to end with lengths in proportion to their
    chances, and drawn at even distances.

    Args:
        calibrated: Probabilities of the labels; items without an unobserved label are not drawn.
        number: How many items, fewer where there are not so many.
        seed: Seed of the draw.

    Returns:
        Rows `[number]`, ascending, and weights `[number]` that are 1 on average.
    """
    rng, n = np.random.default_rng(seed), len(calibrated.observed)
    rows = rng.permutation(np.flatnonzero(calibrated.observed.per_item(0) > 0))
    if number >= len(rows):
        return np.sort(rows), np.ones(len(rows))
    likely = calibrated.unseen(PROBABLE)
    counted = np.where(likely.probability >= PROBABLE, likely.probability, 0.0)
    p = np.bincount(likely.row, counted, n)[rows]
    size = EVENLY / len(rows) + (1 - EVENLY) * p / max(float(p.sum()), 1e-12)
    chance = number * size / size.sum()
    for _ in range(20):  # a chance is at most 1, and what is cut off goes to the others
        sure = chance >= 1
        left = number - int(sure.sum())
        scaled = np.where(sure, 1.0, chance * left / max(float(chance[~sure].sum()), 1e-12))
        if np.allclose(scaled, chance):
            break
        chance = scaled
    ends = np.cumsum(chance)
    points = rng.random() + np.arange(number)
    drawn = np.unique(np.minimum(np.searchsorted(ends, points), len(rows) - 1))
    order = np.argsort(rows[drawn])
    weight = 1 / chance[drawn][order]
    return rows[drawn][order], weight / weight.mean()
