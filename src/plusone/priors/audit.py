"""k and class priors from an audit: a few items, drawn at random, with all their labels.

k and its interval are those of `plusone.priors.intervals` (Cole et al. 2021, App. B): the mean
number of positives and its bootstrap percentile interval. A class prior is a share of few items, so
its interval is Wilson's, which does not shrink to nothing where a class was found on none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.priors.intervals import interval_of

LEVEL = 0.95

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Audit:
    """What a few fully labelled items say.

    Args:
        items: How many they are.
        k: Their mean number of positives.
        low: Lower end of its interval.
        high: Upper end.
        level: How often such intervals hold the truth.
        priors: Share of the items each class applies to, `[L]`; drawn towards `towards` if given.
        prior_low: Lower ends of the intervals of these shares, `[L]`.
        prior_high: Upper ends, `[L]`.
    """

    items: int
    k: float
    low: float
    high: float
    level: float
    priors: Floats
    prior_low: Floats
    prior_high: Floats

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        arrays = ("priors", "prior_low", "prior_high")
        plain = {name: getattr(self, name) for name in ("items", "k", "low", "high", "level")}
        return plain | {name: getattr(self, name).tolist() for name in arrays}


def from_audit(
    truth: LabelMatrix,
    *,
    towards: npt.ArrayLike | None = None,
    weight: float = 20.0,
    level: float = LEVEL,
    seed: int = 0,
) -> Audit:
    """Counts k and class priors, with intervals, from fully labelled items drawn at random.

    Args:
        truth: All labels of the audited items, `[n, L]`, without unobserved ones.
        towards: Priors that were found otherwise, such as by `from_single_positives`; they are
            scaled to the k of the audit and count as much as `weight` items. Intervals stay those
            of the audit alone.
        weight: See `towards`.
        level: How often the intervals should hold the truth.
        seed: Seed of the bootstrap.
    """
    if (missing := int(truth.per_item(0).sum())) or not len(truth):
        raise InputError(
            f"an audit needs items with all labels known, and {missing} labels of its "
            f"{len(truth)} items are not"
        )
    found = interval_of(truth.per_item(1), seed=seed, level=level)
    hits, n = truth.per_class(1).astype(np.float64), len(truth)
    low, high = wilson(hits, n, level)
    priors = hits / n
    if towards is not None:
        other = np.asarray(towards, dtype=np.float64)
        other = np.clip(other * (found.k / max(float(other.sum()), 1e-12)), 0.0, 1.0)
        priors = (hits + weight * other) / (n + weight)
    return Audit(n, found.k, found.low, found.high, level, priors, low, high)


def wilson(hits: Floats, n: int, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Wilson's interval of a share, for each of several counts out of `n`.

    >>> low, high = wilson(np.array([0.0, 5.0]), 10)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.237], [0.278, 0.763])
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, scale = hits / n, 1 + z * z / n
    middle = (share + z * z / (2 * n)) / scale
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / scale
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
