"""Thresholds for a wanted precision or recall, with 90 % confidence.

**Precision.** Audited items, drawn at random with all their labels, say how many of the labels
above a threshold are right. A list of thresholds is fixed before any answer is looked at, from the
probabilities of all held-out items. They are tested from strict to loose, each by Clopper and
Pearson's bound, and the last one before the first failure is taken: fixed-sequence testing (Learn
then Test, Angelopoulos et al. 2021), by which the whole search errs no more often than one test.

**Recall.** Held-out positives say how many labels a threshold misses. A seen positive stands for
others that were not named: it counts 1 / P(named | present), which is the expected number of labels
of its item where each is named with the same probability. The threshold is the largest one whose
weighted share of misses, at the upper end of its interval, is small enough. What is missed only
grows with the threshold, so no list is needed (Bates et al. 2021; with equal weights this is the
tolerance region of split conformal prediction, Vovk 2012).

Bounds, and as how many labels those of one item or group count, are those of
`plusone.probabilities.bound`, as for labels that `suggest` accepts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plusone.probabilities.bound import Floats, at_most, counted

LEVEL = 0.9  # confidence of every statement
START = 2.0  # audited labels above the first threshold, as a multiple of the fewest that can do
STEP = 1.1  # each threshold of the list has so many times the labels of the one before
PROBABLY = 0.8  # chance of success at which a number of items "would probably do"

Units = npt.NDArray[np.int64]


def fewest(target: float, level: float = LEVEL) -> int:
    """How many labels, all right, show that a share of at least `target` is.

    >>> fewest(0.9), fewest(0.99)
    (22, 230)
    """
    return math.ceil(math.log(1 - level) / math.log(target) - 1e-9)


@dataclass(frozen=True)
class Labels:
    """Some labels of held-out items.

    Args:
        p: Their probabilities, `[m]`.
        unit: Item or group of each, `[m]`.
        right: Whether the item has it, bool `[m]`; None where that is not known.
    """

    p: Floats
    unit: Units
    right: npt.NDArray[np.bool_] | None = None

    def above(self, threshold: float) -> npt.NDArray[np.bool_]:
        """Which of them are predicted at a threshold, `[m]`."""
        return np.asarray(self.p > threshold)


@dataclass(frozen=True)
class Tested:
    """A threshold for a precision.

    Args:
        threshold: Labels with a larger probability are predicted; None if none can be given.
        labels: Audited labels above it; above the first of the list if none can be given.
        right: How many of them are right.
    """

    threshold: float | None
    labels: int
    right: int


def fixed_list(every: Labels, audited_share: float, target: float, level: float = LEVEL) -> Floats:
    """The thresholds to test, from strict to loose; no answer of the audit is used.

    Above the first, `START` times the fewest labels that can do are expected of the audited items.

    Args:
        every: Labels of all held-out items.
        audited_share: Share of these items that is audited.
        target: The wanted precision.
        level: Confidence level.
    """
    values = np.sort(every.p)[::-1]
    least, thresholds = START * fewest(target, level), []
    rank = least / max(audited_share, 1e-12)
    while rank < len(values):
        threshold = _below(values, int(rank) - 1)
        chosen = every.above(threshold)
        if counted(np.ones(int(chosen.sum())), every.unit[chosen]) * audited_share >= least - 1:
            thresholds.append(threshold)
        rank *= STEP
    return np.unique(thresholds)[::-1] if thresholds else np.empty(0)


def precision_threshold(
    audited: Labels, thresholds: Floats, target: float, level: float = LEVEL
) -> Tested:
    """The loosest threshold whose precision is at least `target`, by fixed-sequence testing.

    Args:
        audited: Labels of items all of whose labels are known.
        thresholds: See `fixed_list`.
        target: The wanted precision.
        level: Confidence level.
    """
    assert audited.right is not None
    passed = Tested(None, 0, 0)
    for threshold in thresholds.tolist():
        chosen = audited.above(threshold)
        number, right = int(chosen.sum()), int((chosen & audited.right).sum())
        n = counted(np.ones(number), audited.unit[chosen])
        wrong = 1 - right / number if number else 1.0
        if at_most(wrong, n, level) > 1 - target:
            return passed if passed.threshold is not None else Tested(None, number, right)
        passed = Tested(threshold, number, right)
    return passed


def items_needed(every: Labels, n_items: int, target: float, level: float = LEVEL) -> int | None:
    """How many audited items would probably do; None if no number would.

    That is if the probabilities are about right: the labels above the first threshold of the list
    would then pass its test with the probability `PROBABLY`.

    Args:
        every: Labels of all held-out items.
        n_items: Number of these items.
        target: The wanted precision.
        level: Confidence level.
    """
    from scipy.stats import binom  # type: ignore[import-untyped, unused-ignore]

    n = math.ceil(START * fewest(target, level))
    allowed = max(
        (wrong for wrong in range(n) if at_most(wrong / n, n, level) <= 1 - target), default=-1
    )
    values = np.sort(every.p)[::-1]
    mean = np.cumsum(values) / np.arange(1, len(values) + 1)
    reached = np.flatnonzero(binom.cdf(allowed, n, 1 - mean) >= PROBABLY)
    if not len(reached):
        return None
    chosen = every.p >= values[reached[-1]]
    labels = counted(np.ones(int(chosen.sum())), every.unit[chosen])
    return math.ceil(n * n_items / labels)


def recall_threshold(
    p: Floats, weight: Floats, unit: Units, target: float, level: float = LEVEL
) -> float | None:
    """The largest threshold that keeps a share of at least `target` of the positives.

    Args:
        p: Probabilities of held-out positives, `[m]`.
        weight: 1 / P(named | present) of each, `[m]`.
        unit: Item or group of each, `[m]`.
        target: The wanted recall.
        level: Confidence level.

    Returns:
        The threshold, or None if the positives are too few even if none were missed.

    >>> p, ones = np.linspace(0.01, 1, 100), np.ones(100)
    >>> round(recall_threshold(p, ones, np.arange(100), 0.9), 3)  # 5 of 100 may be missed
    0.055
    """
    n = counted(weight, unit)
    order = np.argsort(p, kind="stable")
    values, missed = p[order], np.cumsum(weight[order]) / max(float(weight.sum()), 1e-300)
    # At a value that occurs several times all of them are missed, or none.
    first = np.flatnonzero(np.diff(values, prepend=-1.0) > 0)
    shares = np.where(first > 0, missed[first - 1], 0.0)
    good = bisect_left(
        shares.tolist(), True, key=lambda share: at_most(share, n, level) > 1 - target
    )
    return _below(values[::-1], len(values) - 1 - int(first[good - 1])) if good else None


def _below(descending: Floats, rank: int) -> float:
    """A threshold just below the value of a rank: halfway to the next smaller one."""
    value = float(descending[rank])
    smaller = descending[np.searchsorted(-descending, -value, side="right") :]
    return (value + float(smaller[0])) / 2 if len(smaller) else value / 2
