"""A lower bound of the precision of accepted labels, from audited items.

Audited items are a random sample, so the accepted labels of audited items are one of the accepted
labels of all items: how many of the others are wrong is bounded as in an urn (Clopper and Pearson's
argument for a finite population, the hypergeometric distribution). Labels of one item may be right
or wrong together, so they count as if they always were: an audit with a_i accepted labels of item i
counts as (sum a)^2 / sum a^2 labels (Kish's effective sample size; Korn and Graubard 1998). Where
items belong to groups (clips of a recording), a_i is the number of group i: whole groups may have
been audited, and their items are alike.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

LEVEL = 0.95


def precision_at_least(
    accepted: npt.NDArray[np.integer],
    right: npt.NDArray[np.integer],
    others: int,
    *,
    level: float = LEVEL,
) -> float | None:
    """Lower bound of the share of right labels among the other accepted labels; None without any.

    Args:
        accepted: Accepted labels of each audited item, or of each group with audited items, `[m]`.
        right: How many of them are right, `[m]`.
        others: Number of accepted labels of the other items.
        level: Confidence level.

    >>> few = np.ones(20, dtype=int)
    >>> round(precision_at_least(few, few, 10_000), 2)  # 0.05 ** (1 / 20)
    0.86
    """
    from scipy.stats import hypergeom  # type: ignore[import-untyped, unused-ignore]

    total = int(accepted.sum())
    if not total or not others:
        return None
    together = float((accepted.astype(np.int64) ** 2).sum()) / total
    sample = max(math.floor(total / together), 1)
    wrong = min(math.ceil((total - int(right.sum())) / together), sample)
    rest = max(round(others / together), 1)

    def possible(wrong_of_all: int) -> bool:
        """Whether as few wrong ones as in the audit are likely enough with so many in all."""
        return float(hypergeom.cdf(wrong, sample + rest, wrong_of_all, sample)) >= 1 - level

    low, high = wrong, wrong + rest
    while low < high:  # the largest possible number
        middle = (low + high + 1) // 2
        low, high = (middle, high) if possible(middle) else (low, middle - 1)
    return 1 - (low - wrong) / rest
