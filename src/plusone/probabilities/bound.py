"""Bounds of a share of labels, from a sample of items: Clopper and Pearson's.

Labels of one item are more often right or wrong together than others, and so are those of a group
of items that are alike (clips of a recording); and labels may weigh differently. So a sample counts
as fewer labels than it has (`counted`; Kish 1965; Korn and Graubard 1998):

    effective sample = (sum w)^2 / sum_units (sum_unit w)^2,

with w the weight of a label, and items or groups as units. Labels of a unit count as one: their
correlation is taken as 1, which is the safe end.

`at_most` bounds a share among all labels of the same kind, new ones for example.
`precision_at_least` bounds it among the labels that an audit left: as in an urn, by the same
argument for a finite population (the hypergeometric distribution).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEVEL = 0.95

Floats = npt.NDArray[np.float64]


def counted(weight: Floats, unit: npt.NDArray[np.int64]) -> float:
    """As how many independent labels these count: (sum w)^2 / sum w^2 over items or groups.

    Args:
        weight: Weight of each label, `[m]`.
        unit: Its item or group, `[m]`.

    >>> counted(np.ones(4), np.array([0, 0, 1, 1]))
    2.0
    """
    _, place = np.unique(unit, return_inverse=True)
    total = np.bincount(place, weight)
    return float(total.sum() ** 2 / (total**2).sum()) if len(weight) else 0.0


def at_most(share: float, count: float, level: float = LEVEL) -> float:
    """Upper bound of a share, observed on so many independent labels.

    >>> round(at_most(0.0, 22, 0.9), 3), round(at_most(1 / 38, 38, 0.9), 3)
    (0.099, 0.099)
    """
    from scipy.special import betaincinv  # type: ignore[import-untyped, unused-ignore]

    bad = share * count
    return 1.0 if count <= 0 or bad >= count else float(betaincinv(bad + 1, count - bad, level))


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
        weight: Floats | None = None,
    ) -> Sample:
        """The sample of labels, each of a unit, right or wrong, `[m]` each.

        Args:
            unit: Number of the item, or the group, of each label.
            right: Whether it is right.
            weight: For how many labels of other items it stands; the same for all by default.

        >>> four = np.ones(4, dtype=bool)
        >>> Sample.of(np.arange(4), four).size, Sample.of(np.zeros(4, dtype=int), four).size
        (4, 1)
        """
        if not len(unit):
            return cls(0, 0, 1.0)
        w = np.ones(len(unit)) if weight is None else weight
        together = float(w.sum()) / counted(w, unit)
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
