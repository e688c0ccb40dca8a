"""Which suggestions to accept without a review, for a target precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.errors import InputError
from plusone.priors.calibration import Floats, States
from plusone.suggest.calibration import Calibrated

LOW = 0.05  # quantile of the bootstrap samples of the audit


@dataclass(frozen=True)
class Accepted:
    """Labels that are accepted at a target precision.

    Args:
        target: The target precision.
        mask: Which entries are accepted, bool `[n, L]`.
        threshold: The lowest probability that is accepted in each class, `[L]`; NaN where none is.
        expected: Expected precision, the mean probability of the accepted; None if there are none.
        low: Lower bound of the precision at 95 % confidence; None without an audit.
        by_class: Number of accepted labels of each class, and their mean probability.
    """

    target: float
    mask: npt.NDArray[np.bool_]
    threshold: Floats
    expected: float | None
    low: float | None
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

    Args:
        calibrated: Calibrated probabilities.
        observed: Seen labels, `[n, L]`.
        target: The share of accepted labels that should be right.
        per_class: Whether every class must reach the target by itself.
    """
    if not 0 < target < 1:
        raise InputError(f"the precision must be between 0 and 1, not {target:g}")
    p, unseen = calibrated.probabilities, observed == 0
    mask = np.zeros(p.shape, dtype=bool)
    if per_class:
        for label in range(p.shape[1]):
            own = unseen[:, label]
            mask[own, label] = largest_set(p[own, label], target)
    else:
        mask[unseen] = largest_set(p[unseen], target)
    lowest = np.where(mask, p, np.inf).min(axis=0)
    return Accepted(
        target=target,
        mask=mask,
        threshold=np.where(mask.any(axis=0), lowest, np.nan),
        expected=float(p[mask].mean()) if mask.any() else None,
        low=_low(calibrated, mask),
        by_class=tuple(
            (int(own.sum()), float(p[own, label].mean()) if own.any() else None)
            for label, own in enumerate(mask.T)
        ),
    )


def _low(calibrated: Calibrated, mask: npt.NDArray[np.bool_]) -> float | None:
    """The expected precision of the same labels, at a low quantile of the audit's bootstrap."""
    if not calibrated.resamples or not mask.any():
        return None
    before, label = calibrated.before[mask], np.nonzero(mask)[1]
    precisions = [correction(before, label).mean() for correction in calibrated.resamples]
    return float(np.quantile(precisions, LOW))


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
        "classes": rows,
    }
    if right is not None:
        result["true_precision"] = sum(right) / accepted.count if accepted.count else None
        result["recovered"] = sum(right) / hidden if hidden else None
    return result
