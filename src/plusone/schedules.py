"""Values that move over training, as pure functions of progress in [0, 1]."""

from __future__ import annotations

import math


def linear(progress: float, start: float, end: float) -> float:
    """A straight line from `start` to `end`.

    >>> linear(0.25, 0.0, 8.0)
    2.0
    """
    return start + (end - start) * progress


def cosine(progress: float, start: float, end: float) -> float:
    """Half a cosine wave from `start` to `end`.

    >>> cosine(0.5, 2.0, 4.0)
    3.0
    """
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2
