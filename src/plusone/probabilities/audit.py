"""k and class priors from an audit: a few items, drawn at random, with all their labels.

k and its interval are those of `plusone.probabilities.intervals` (Cole et al. 2021, App. B): the
mean number of positives and its bootstrap percentile interval. A class prior is a proportion of few
items, so its interval is Wilson's, which has a positive width also if no item has the class.

Items of a group (clips of a recording) are alike. Where there are groups, the bootstrap draws whole
groups, if there are enough of them, and an audit with m_g items of group g counts as
(sum m)^2 / sum m^2 items in Wilson's interval (Kish's effective sample size).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.groups import group_numbers
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.intervals import interval_of

LEVEL = 0.95

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Audit:
    """k and class priors of a few fully labelled items.

    Args:
        items: Number of items.
        k: Mean number of positives per item.
        low: Lower end of its interval; None if there are too few groups.
        high: Upper end; None as well.
        level: Confidence level of the intervals.
        priors: Share of the items each class applies to, `[L]`; shrunk to `towards` if given.
        prior_low: Lower ends of the intervals of these shares, `[L]`.
        prior_high: Upper ends, `[L]`.
        groups: Number of groups; None if items belong to no groups.
    """

    items: int
    k: float
    low: float | None
    high: float | None
    level: float
    priors: Floats
    prior_low: Floats
    prior_high: Floats
    groups: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        names = ("items", "k", "low", "high", "level", "groups")
        arrays = ("priors", "prior_low", "prior_high")
        plain = {name: getattr(self, name) for name in names}
        return plain | {name: getattr(self, name).tolist() for name in arrays}


def from_audit(
    truth: LabelMatrix,
    *,
    towards: npt.ArrayLike | None = None,
    weight: float = 20.0,
    level: float = LEVEL,
    seed: int = 0,
    groups: npt.ArrayLike | None = None,
) -> Audit:
    """Counts k and class priors, with intervals, from fully labelled items drawn at random.

    Args:
        truth: All labels of the audited items, `[n, L]`, without unobserved ones.
        towards: Other estimates of the priors, such as those of `from_single_positives`; they are
            scaled to the k of the audit and count as much as `weight` items. Intervals stay those
            of the audit alone.
        weight: See `towards`.
        level: Confidence level of the intervals.
        seed: Seed of the bootstrap.
        groups: The group of each audited item, `[n]`, where items belong together.
    """
    from scipy.stats import binomtest  # type: ignore[import-untyped, unused-ignore]

    if (missing := int(truth.per_item(0).sum())) or not len(truth):
        raise InputError(
            f"an audit needs items with all labels known, and {missing} labels of its "
            f"{len(truth)} items are not"
        )
    sample = interval_of(truth.per_item(1), seed=seed, level=level, groups=groups)
    hits, n = truth.per_class(1), len(truth)
    sizes = np.ones(n) if groups is None else np.bincount(group_numbers(groups))
    counted = max(math.floor(n * n / float((sizes**2).sum())), 1)
    low, high = np.transpose(
        [
            binomtest(count, counted).proportion_ci(level, "wilson")
            for count in np.rint(hits * (counted / n)).astype(int).tolist()
        ]
    )
    priors = hits / n
    if towards is not None:
        other = np.asarray(towards, dtype=np.float64)
        other = np.clip(other * (sample.k / max(float(other.sum()), 1e-12)), 0.0, 1.0)
        priors = (hits + weight * other) / (n + weight)
    ends = (sample.low, sample.high)
    return Audit(n, sample.k, *ends, level, priors, low, high, sample.groups)
