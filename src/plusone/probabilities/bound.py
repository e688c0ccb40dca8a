"""A lower bound of the precision of accepted labels, from audited items.

Audited items are a random sample, so the accepted labels of audited items are one of the accepted
labels of all items: how many of the others are wrong is bounded as in an urn (Clopper and Pearson's
argument for a finite population, the hypergeometric distribution). Labels of one item are more
often right or wrong together than others, and may weigh differently where an audit was not drawn
evenly; so a sample counts as fewer labels than it has, by its design effect (Kish 1965; Korn and
Graubard 1998):

    effective sample = (sum w)^2 / ((1 - r) sum_labels w^2 + r sum_units (sum_unit w)^2),

with w one over the chance that the item was drawn, and r the correlation of two labels of a unit:
an item, or a group of items that are alike (clips of a recording), whose labels count as one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
WITHIN_ITEM = 0.3  # correlation of errors of two labels of an item
WITHIN_GROUP = 1.0  # of a group


@dataclass(frozen=True)
class Sample:
    """Labels of audited items that would be accepted.

    Args:
        size: How many independent labels they are worth, 0 if there are none.
        wrong: How many of these are wrong, rounded up.
        together: Labels that count as one, on average.
    """

    size: int
    wrong: int
    together: float

    @classmethod
    def of(
        cls,
        unit: npt.NDArray[np.int64],
        right: npt.NDArray[np.bool_],
        weight: npt.NDArray[np.float64] | None = None,
        correlation: float = WITHIN_ITEM,
    ) -> Sample:
        """The sample of labels, each of a unit, right or wrong, `[m]` each.

        Args:
            unit: Number of the item, or the group, of each label.
            right: Whether it is right.
            weight: One over the chance that its item was drawn; all the same by default.
            correlation: Of two labels of a unit.

        >>> four = np.ones(4, dtype=bool)
        >>> Sample.of(np.arange(4), four).size, Sample.of(np.zeros(4, dtype=int), four).size
        (4, 2)
        """
        if not len(unit):
            return cls(0, 0, 1.0)
        w = np.ones(len(unit)) if weight is None else weight
        _, place = np.unique(unit, return_inverse=True)
        squares = (1 - correlation) * (w**2).sum()
        squares += correlation * (np.bincount(place, w) ** 2).sum()
        together = float(squares / w.sum())
        size = max(math.floor(w.sum() / together + 1e-9), 1)
        return cls(size, min(math.ceil(w[~right].sum() / together - 1e-9), size), together)


def precision_at_least(sample: Sample, others: int, *, level: float = LEVEL) -> float | None:
    """Lower bound of the share of right labels among the other accepted labels; None without any.

    Args:
        sample: Accepted labels of audited items.
        others: Number of accepted labels of the other items.
        level: Confidence level.

    >>> few = Sample.of(np.arange(20), np.ones(20, dtype=bool))
    >>> round(precision_at_least(few, 10_000), 2)  # 0.05 ** (1 / 20)
    0.86
    """
    from scipy.stats import hypergeom  # type: ignore[import-untyped, unused-ignore]

    if not sample.size or not others:
        return None
    size, wrong, rest = sample.size, sample.wrong, max(round(others / sample.together), 1)

    def possible(wrong_of_all: int) -> bool:
        """Whether as few wrong ones as in the audit are likely enough with so many in all."""
        return float(hypergeom.cdf(wrong, size + rest, wrong_of_all, size)) >= 1 - level

    low, high = wrong, wrong + rest
    while low < high:  # the largest possible number
        middle = (low + high + 1) // 2
        low, high = (middle, high) if possible(middle) else (low, middle - 1)
    return 1 - (low - wrong) / rest
