"""Values that move over training, as pure functions of progress in [0, 1]."""

from __future__ import annotations


def linear(progress: float, start: float, end: float) -> float:
    """A straight line from `start` to `end`.

    >>> linear(0.25, 0.0, 8.0)
    2.0
    """
    return start + (end - start) * progress
