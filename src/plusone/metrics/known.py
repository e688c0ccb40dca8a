"""How much is known of the labels that a model is measured against, and what follows from it.

Training, `plusone evaluate`, `PlusOneClassifier.score` and the comparisons all ask `against`, so
they do the same with unknown labels.
"""

from __future__ import annotations

from typing import Literal

from plusone.data.matrix import LabelMatrix
from plusone.metrics._inputs import Unknown

Against = Literal["truth", "known", "seen"]
"""`"truth"`: all labels are known. `"known"`: some are, positives and negatives. `"seen"`: no more
than some positives."""

MEANINGS: dict[Against, tuple[Unknown, ...]] = {
    "truth": ("negative",),  # there is no unknown label
    "known": ("masked", "negative", "positive"),
    "seen": ("negative",),
}
"""What unknown labels count as: first in the figure, then in those that are given beside it."""


def against(labels: LabelMatrix) -> Against:
    """What items with these labels can be measured against.

    Unknown labels are masked if a class has a known positive and a known negative. Otherwise no
    class would have an average precision, and unknown labels count as negative.

    >>> against(LabelMatrix.from_dense([[1, 0], [-1, 0]]))
    'known'
    >>> against(LabelMatrix.from_dense([[1, 0], [0, -1]]))
    'seen'
    >>> against(LabelMatrix.from_dense([[1, -1], [-1, 1]]))
    'truth'
    """
    if not labels.per_class(0).any():
        return "truth"
    both = (labels.per_class(1) > 0) & (labels.per_class(-1) > 0)
    return "known" if both.any() else "seen"
