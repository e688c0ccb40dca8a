"""Which suggestions to accept without a review, for a target precision.

The most probable labels are accepted, as many as their mean probability allows. Without an audit
that is an expectation, which is as good as the model of how annotators pick. With an audit, the
probabilities are corrected by its answers, and the mean has to reach the target with the
confidence `CHARGED`, by the standard error that the audit's own sampling gives it (a jackknife over
parts of the audited items) and Student's t, as there are few parts (2.3 standard errors with ten);
and a lower bound of the precision, from the audited labels alone, has to reach `LEAST_BOUND`.
docs/evidence/promises.md compares it with fixed sequence testing of thresholds (Learn then Test).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.bound import Sample, precision_at_least
from plusone.probabilities.scores import Floats, Ints
from plusone.probabilities.unseen_labels import Calibrated, Checked, Unseen

PROBABLE = 0.1  # where the search for labels to accept begins; hardly one is less probable
FEWEST = 12  # labels that are accepted, one per group; an expectation says little about fewer
CHARGED = 0.977  # confidence that the mean is above the target: that of two normal standard errors
LEAST_BOUND = 0.6  # at 95 % confidence: with less, the audit has seen too few such labels


@dataclass(frozen=True)
class Accepted:
    """Labels that are accepted at a target precision.

    Args:
        target: The target precision; None if nothing was to be accepted.
        row: Their items, int64 `[m]`, ascending.
        label: Their classes, `[m]`.
        threshold: The lowest probability that is accepted in each class, `[L]`; NaN where none is.
        expected: Expected precision, the mean probability of the accepted; None if there are none.
        low: Lower bound of the precision at 95 % confidence; None if no audited item tells.
        checked: Labels of audited items that would be accepted, and how many of them are right.
        by_class: Number of accepted labels of each class, and their mean probability.
    """

    target: float | None
    row: Ints
    label: npt.NDArray[np.integer]
    threshold: Floats
    expected: float | None
    low: float | None
    checked: tuple[int, int] | None
    by_class: tuple[tuple[int, float | None], ...]

    @property
    def count(self) -> int:
        """How many labels are accepted."""
        return len(self.row)


def largest_set(
    probabilities: Floats, target: float, others: Sequence[Floats] = ()
) -> npt.NDArray[np.bool_]:
    """The largest set whose mean probability is at least the target: the most probable ones.

    Args:
        probabilities: `[m]`.
        target: The least mean.
        others: The same probabilities fitted without each part of an audit, `[m]` each; the mean
            has to be above the target with the confidence `CHARGED` then.

    >>> largest_set(np.array([0.7, 0.99, 0.95, 0.2]), 0.9).tolist()
    [False, True, True, False]
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

    order = np.argsort(-probabilities, kind="stable")
    numbers = np.arange(1, len(order) + 1)
    least = np.cumsum(probabilities[order]) / numbers
    if others:
        means = np.stack([np.cumsum(other[order]) / numbers for other in others])
        freedom = max(len(others) - 1, 1)
        least = least - stdtrit(freedom, CHARGED) * np.sqrt(freedom * means.var(axis=0))
    reached = np.flatnonzero(least >= target)
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[: reached[-1] + 1 if len(reached) else 0]] = True
    return chosen


def accept(
    calibrated: Calibrated,
    target: float,
    *,
    per_class: bool = False,
    groups: npt.NDArray[np.int64] | None = None,
) -> Accepted:
    """Accepts as many unobserved labels as the target precision allows.

    Labels that an audit has answered are known, and not among them. Fewer than `FEWEST` labels are
    not accepted; the same label of several items of a group counts as one of these.

    Args:
        calibrated: Calibrated probabilities; the careful ones count, where there are any.
        target: The share of accepted labels that should be right.
        per_class: Whether every class must reach the target by itself.
        groups: Number of each item's group, `[n]`; None if items belong to no groups.
    """
    if not 0 < target < 1:
        raise InputError(f"the precision must be between 0 and 1, not {target:g}")
    checked, n_classes = calibrated.checked, calibrated.observed.n_classes
    classes = np.arange(n_classes)
    parts = np.split(classes, n_classes) if per_class else [classes]
    chosen = _likely(calibrated, target, parts)
    if checked is not None:
        kept = np.zeros(len(chosen), dtype=bool)
        for own in _places(chosen.label, parts):
            before, label = chosen.before[own], chosen.label[own]
            others = [correction(before, label) for correction in checked.corrections]
            kept[own] = largest_set(chosen.accepted_by[own], target, others)
        chosen = chosen.take(kept)
    low, counts = None, None
    if checked is not None and len(chosen):
        lowest = _lowest(chosen, n_classes)
        sample, counts = _sample(checked, lowest, parts, len(calibrated.observed))
        low = precision_at_least(sample, len(chosen))
    row = chosen.row if groups is None else groups[chosen.row]
    few = len(np.unique(row * n_classes + chosen.label)) < FEWEST
    if few or (checked is not None and (low is None or low < LEAST_BOUND)):
        return accept_none(n_classes, target)
    p, lowest = chosen.accepted_by, _lowest(chosen, n_classes)
    numbers = np.bincount(chosen.label, minlength=n_classes)
    sums = np.bincount(chosen.label, p, n_classes)
    return Accepted(
        target=target,
        row=chosen.row,
        label=chosen.label,
        threshold=np.where(numbers > 0, lowest, np.nan),
        expected=float(p.mean()),
        low=low,
        checked=counts,
        by_class=tuple(
            (count, total / count if count else None)
            for count, total in zip(numbers.tolist(), sums.tolist(), strict=True)
        ),
    )


def accept_none(n_classes: int, target: float | None = None) -> Accepted:
    """No label is accepted: none was to be, or none can be."""
    nothing, unused = np.zeros(0, dtype=np.int64), np.full(n_classes, np.nan)
    return Accepted(target, nothing, nothing, unused, None, None, None, ((0, None),) * n_classes)


def _likely(calibrated: Calibrated, target: float, parts: Sequence[Ints]) -> Unseen:
    """The largest sets of labels, of each part of the classes, whose mean reaches the target.

    Less probable labels are asked for as long as they could be in such a set.
    """
    observed, checked = calibrated.observed, calibrated.checked
    unknown, least = observed.per_class(0), PROBABLE
    if checked is not None:
        row, label = checked.answers.row, checked.answers.label
        unknown = unknown - np.bincount(label[observed.at(row, label) == 0], None, len(unknown))
    while True:
        labels = calibrated.unseen(least)
        labels = labels.take(labels.accepted_by >= least)
        if checked is not None:
            answered = np.isin(labels.row * len(unknown) + labels.label, row * len(unknown) + label)
            labels = labels.take(~answered)
        kept, complete = np.zeros(len(labels), dtype=bool), True
        for part, own in zip(parts, _places(labels.label, parts), strict=True):
            p = labels.accepted_by[own]
            kept[own] = largest_set(p, target)
            one_more = (float(p.sum()) + least) / (len(p) + 1)  # the mean, if one were as probable
            complete &= one_more < target or len(p) == unknown[part].sum()
        if complete or least == 0:
            return labels.take(kept)
        least = least / 10 if least > PROBABLE / 100 else 0.0


def _places(label: npt.NDArray[np.integer], parts: Sequence[Ints]) -> list[Ints]:
    """Where the labels `[m]` of each part of the classes are, int64, ascending."""
    if len(parts) == 1:
        return [np.arange(len(label))]
    order = np.argsort(label, kind="stable")  # each part is one class
    return np.split(order, np.searchsorted(label[order], np.arange(1, len(parts))))


def _lowest(chosen: Unseen, n_classes: int) -> Floats:
    """The lowest probability of each class, `[L]`; infinite where there is none."""
    lowest = np.full(n_classes, np.inf)
    np.minimum.at(lowest, chosen.label, chosen.accepted_by)
    return lowest


def _sample(
    checked: Checked, lowest: Floats, parts: Sequence[npt.NDArray[np.int64]], n_items: int
) -> tuple[Sample, tuple[int, int]]:
    """Labels of audited items that would be accepted, and how many there are and are right.

    Args:
        checked: The audit.
        lowest: The lowest probability that is accepted in each class, `[L]`.
        parts: Classes that share a threshold.
        n_items: How many items there are.
    """
    answers, threshold = checked.answers, lowest.copy()
    for part in parts:
        threshold[part] = lowest[part].min()
    drawn = np.isin(answers.row, answers.complete)
    chosen = drawn & (checked.corrected >= threshold[answers.label])
    rest = answers.about_others(n_items)
    weight = None if rest is None else rest[chosen]
    sample = Sample.of(answers.unit[chosen], answers.yes[chosen], weight)
    return sample, (int(chosen.sum()), int((chosen & answers.yes).sum()))


def summary(
    accepted: Accepted, classes: Sequence[str], truth: LabelMatrix | None, hidden: int
) -> dict[str, Any]:
    """Plain values about accepted labels, ready for JSON.

    Args:
        accepted: The labels.
        classes: Class names.
        truth: All labels, `[n, L]`, if known.
        hidden: Number of positives that were not seen, if the truth is known.
    """
    right = None
    if truth is not None:
        known = truth.at(accepted.row, accepted.label) == 1
        right = np.bincount(accepted.label[known], minlength=len(classes)).tolist()
    rows = []
    for label, (name, (count, mean)) in enumerate(zip(classes, accepted.by_class, strict=True)):
        row: dict[str, Any] = {"class": name, "accepted": count, "estimated_precision": mean}
        row["threshold"] = float(accepted.threshold[label]) if count else None
        if right is not None:
            row["true_precision"] = right[label] / count if count else None
        rows.append(row)
    result: dict[str, Any] = {
        "target": accepted.target,
        "accepted": accepted.count,
        "estimated_precision": accepted.expected,
        "precision_at_least": accepted.low,
        "audited": accepted.checked,
        "classes": rows,
    }
    if right is not None:
        result["true_precision"] = sum(right) / accepted.count if accepted.count else None
        result["recovered"] = sum(right) / hidden if hidden else None
    return result
