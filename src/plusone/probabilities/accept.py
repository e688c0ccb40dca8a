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

from plusone.errors import InputError
from plusone.probabilities.bound import Sample, precision_at_least
from plusone.probabilities.curve import Floats, States
from plusone.probabilities.unseen_labels import Calibrated, Checked

FEWEST = 12  # labels that are accepted, one per group; an expectation says little about fewer
CHARGED = 0.977  # confidence that the mean is above the target: that of two normal standard errors
LEAST_BOUND = 0.6  # at 95 % confidence: with less, the audit has seen too few such labels


@dataclass(frozen=True)
class Accepted:
    """Labels that are accepted at a target precision.

    Args:
        target: The target precision; None if nothing was to be accepted.
        mask: Which entries are accepted, bool `[n, L]`.
        threshold: The lowest probability that is accepted in each class, `[L]`; NaN where none is.
        expected: Expected precision, the mean probability of the accepted; None if there are none.
        low: Lower bound of the precision at 95 % confidence; None if no audited item tells.
        checked: Labels of audited items that would be accepted, and how many of them are right.
        by_class: Number of accepted labels of each class, and their mean probability.
    """

    target: float | None
    mask: npt.NDArray[np.bool_]
    threshold: Floats
    expected: float | None
    low: float | None
    checked: tuple[int, int] | None
    by_class: tuple[tuple[int, float | None], ...]

    @property
    def count(self) -> int:
        """How many labels are accepted."""
        return int(self.mask.sum())


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
    observed: States,
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
        observed: Seen labels, `[n, L]`.
        target: The share of accepted labels that should be right.
        per_class: Whether every class must reach the target by itself.
        groups: Number of each item's group, `[n]`; None if items belong to no groups.
    """
    if not 0 < target < 1:
        raise InputError(f"the precision must be between 0 and 1, not {target:g}")
    p, unknown, checked = calibrated.probabilities, observed == 0, calibrated.checked
    p = p if calibrated.careful is None else calibrated.careful
    if checked is not None:
        unknown[checked.answers.row, checked.answers.label] = False
    n_classes = p.shape[1]
    every = [np.array([label]) for label in range(n_classes)]
    parts = every if per_class else [np.arange(n_classes)]
    mask = np.zeros(p.shape, dtype=bool)
    for part in parts:
        row, place = np.nonzero(unknown[:, part])
        label = part[place]
        likely = largest_set(p[row, label], target)
        row, label = row[likely], label[likely]
        others: list[Floats] = []
        if checked is not None:
            before = calibrated.before[row, label]
            others = [correction(before, label) for correction in checked.corrections]
        chosen = largest_set(p[row, label], target, others)
        mask[row[chosen], label[chosen]] = True
    low, counts = None, None
    if checked is not None and mask.any():
        lowest = np.where(mask, p, np.inf).min(axis=0)
        sample, counts = _sample(checked, lowest, parts, len(mask))
        low = precision_at_least(sample, int(mask.sum()))
        if low is None or low < LEAST_BOUND:
            mask[:], low, counts = False, None, None
    row, label = np.nonzero(mask)
    if len(np.unique((row if groups is None else groups[row]) * n_classes + label)) < FEWEST:
        mask[:], low, counts = False, None, None
    lowest = np.where(mask, p, np.inf).min(axis=0)
    return Accepted(
        target=target,
        mask=mask,
        threshold=np.where(mask.any(axis=0), lowest, np.nan),
        expected=float(p[mask].mean()) if mask.any() else None,
        low=low,
        checked=counts,
        by_class=tuple(
            (int(own.sum()), float(p[own, label].mean()) if own.any() else None)
            for label, own in enumerate(mask.T)
        ),
    )


def accept_none(observed: States) -> Accepted:
    """No label is accepted, because none was to be."""
    n_classes = observed.shape[1]
    nothing = np.zeros(observed.shape, dtype=bool)
    unused = np.full(n_classes, np.nan)
    return Accepted(None, nothing, unused, None, None, None, ((0, None),) * n_classes)


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
    accepted: Accepted, classes: Sequence[str], truth: npt.NDArray[np.bool_] | None, hidden: int
) -> dict[str, Any]:
    """Plain values about accepted labels, ready for JSON.

    Args:
        accepted: The labels.
        classes: Class names.
        truth: All labels, `[n, L]`, if known.
        hidden: Number of positives that were not seen, if the truth is known.
    """
    right = None if truth is None else (accepted.mask & truth).sum(axis=0).tolist()
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
