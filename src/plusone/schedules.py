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


def one_cycle(progress: float, *, peak: float = 0.3, first: float = 0.04) -> float:
    """Share of the highest learning rate: up in the first part, down to almost 0 in the rest.

    Both parts are half cosine waves, as in torch's `OneCycleLR`.

    Args:
        progress: In [0, 1].
        peak: Where the highest rate is reached.
        first: Share at the start.

    >>> [round(one_cycle(progress), 4) for progress in (0.0, 0.3, 1.0)]
    [0.04, 1.0, 0.0]
    """
    if progress < peak:
        return cosine(progress / peak, first, 1.0)
    return cosine((progress - peak) / (1 - peak), 1.0, first * 1e-4)
