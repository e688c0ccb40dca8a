"""Which suggestions to accept without a review, for a target precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.errors import InputError
from plusone.priors.calibration import Floats, States
from plusone.suggest.bound import precision_at_least
from plusone.suggest.calibration import Calibrated, Checked

FEWEST = 10  # accepted labels without an audit; an expectation says little about fewer


@dataclass(frozen=True)
class Accepted:
    """Labels that are accepted at a target precision.

    Args:
        target: The target precision.
        mask: Which entries are accepted, bool `[n, L]`.
        threshold: From which probability labels of a class are accepted, `[L]`; NaN where none is.
        expected: Expected precision, the mean probability of the accepted; None if there are none.
        low: Lower bound of the precision at 95 % confidence; None if no audited item tells.
        checked: Labels of audited items that would be accepted, and how many of them are right.
        by_class: Number of accepted labels of each class, and their mean probability.
    """

    target: float
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


def largest_set(probabilities: Floats, target: float) -> npt.NDArray[np.bool_]:
    """The largest set whose mean probability is at least the target: the most probable ones.

    >>> largest_set(np.array([0.7, 0.99, 0.95, 0.2]), 0.9).tolist()
    [False, True, True, False]
    """
    order = np.argsort(-probabilities, kind="stable")
    means = np.cumsum(probabilities[order]) / np.arange(1, len(order) + 1)
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[: int(np.count_nonzero(means >= target))]] = True
    return chosen


def accept(
    calibrated: Calibrated, observed: States, target: float, *, per_class: bool = False
) -> Accepted:
    """Accepts as many unobserved labels as the target precision allows.

    Labels that an audit has answered are known, and not among them. Without an audit, fewer than
    `FEWEST` labels are not accepted.

    Args:
        calibrated: Calibrated probabilities.
        observed: Seen labels, `[n, L]`.
        target: The share of accepted labels that should be right.
        per_class: Whether every class must reach the target by itself.
    """
    if not 0 < target < 1:
        raise InputError(f"the precision must be between 0 and 1, not {target:g}")
    p, unknown, checked = calibrated.probabilities, observed == 0, calibrated.checked
    if checked is not None:
        unknown[checked.answers.row, checked.answers.label] = False
    threshold = _thresholds(p, unknown, target, per_class)
    mask = unknown & (p >= threshold)
    if checked is None and mask.sum() < FEWEST:
        mask[:] = False
    low, counts = None, None
    if checked is not None and mask.any():
        accepted, right = _audited(checked, calibrated.before, unknown, target, per_class)
        low = precision_at_least(accepted, right, int(mask.sum()))
        counts = (int(accepted.sum()), int(right.sum()))
    return Accepted(
        target=target,
        mask=mask,
        threshold=np.where(mask.any(axis=0), threshold, np.nan),
        expected=float(p[mask].mean()) if mask.any() else None,
        low=low,
        checked=counts,
        by_class=tuple(
            (int(own.sum()), float(p[own, label].mean()) if own.any() else None)
            for label, own in enumerate(mask.T)
        ),
    )


def _thresholds(
    p: Floats, unknown: npt.NDArray[np.bool_], target: float, per_class: bool
) -> Floats:
    """The lowest accepted probability of each class, `[L]`; above 1 where nothing is accepted."""
    parts = unknown.T if per_class else [unknown]
    values = p.T if per_class else [p]
    lowest = [
        float(own[largest_set(own, target)].min(initial=2.0))
        for own in (part_p[part] for part_p, part in zip(values, parts, strict=True))
    ]
    return np.broadcast_to(np.array(lowest), p.shape[1:]).copy()


def _audited(
    checked: Checked,
    before: Floats,
    unknown: npt.NDArray[np.bool_],
    target: float,
    per_class: bool,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Accepted labels of each audited item, and how many are right, `[items]` each.

    What is accepted of an item is decided by a correction that was fitted without it.
    """
    row, label, yes = checked.answers.row, checked.answers.label, checked.answers.yes
    chosen = np.zeros(len(row), dtype=bool)
    for part, correction in enumerate(checked.corrections):
        own = checked.fold == part
        threshold = _thresholds(correction(before), unknown, target, per_class)
        chosen[own] = correction(checked.before[own], label[own]) >= threshold[label[own]]
    item = np.searchsorted(np.unique(row), row)
    return np.bincount(item, chosen).astype(np.int64), np.bincount(item, chosen & yes).astype(
        np.int64
    )


def summary(
    accepted: Accepted, classes: tuple[str, ...], truth: npt.NDArray[np.bool_] | None, hidden: int
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
