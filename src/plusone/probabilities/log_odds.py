"""Scores as log-odds, in NumPy alone: the review page computes with them and does without torch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SMALLEST = 1e-6  # beyond it and 1 - SMALLEST log-odds count a thousandth: finite, without ties
BEYOND = 1e-3
LARGEST = float(np.log1p(-SMALLEST) - np.log(SMALLEST))


def log_odds(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """`log(s / (1 - s))`, bounded for 0 and 1 too, in the order of the scores.

    >>> log_odds([0.0, 1e-9, 0.5, 1.0]).round(2).tolist()
    [-14.51, -13.82, 0.0, 13.84]
    """
    limits = np.finfo(np.float64)
    s = np.clip(np.asarray(scores, dtype=np.float64), limits.tiny, 1 - limits.epsneg)
    x = np.log(s) - np.log1p(-s)
    inside = np.clip(x, -LARGEST, LARGEST)
    return np.asarray(inside + BEYOND * (x - inside))
