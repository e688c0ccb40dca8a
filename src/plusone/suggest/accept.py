"""Which suggestions can be accepted unseen, if a wanted share of them must be right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.errors import InputError
from plusone.suggest.calibration import Calibrated, Floats, States

LOW = 0.05  # share of other audits that would have promised less


@dataclass(frozen=True)
class Accepted:
    """Labels that are accepted at a wanted precision.

    Args:
        target: The wanted precision.
        mask: Which entries are accepted, bool `[n, L]`.
        threshold: The lowest probability that is accepted in each class, `[L]`; NaN where none is.
        expected: Expected precision, the mean probability of the accepted; None if there are none.
        low: What it is at least, at 95 % confidence; None without an audit.
        by_class: For each class: how many, and the mean of their probabilities.
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
    found: Calibrated, observed: States, target: float, *, per_class: bool = False
) -> Accepted:
    """Accepts as many unobserved labels as the wanted precision allows.

    Args:
        found: Calibrated probabilities.
        observed: What was seen, `[n, L]`.
        target: The share of accepted labels that should be right.
        per_class: Whether every class must reach it by itself, not just all together.
    """
    if not 0 < target < 1:
        raise InputError(f"the wanted precision must be between 0 and 1, not {target:g}")
    p, unseen = found.probabilities, observed == 0
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
        low=_low(found, mask),
        by_class=tuple(
            (int(own.sum()), float(p[own, label].mean()) if own.any() else None)
            for label, own in enumerate(mask.T)
        ),
    )


def _low(found: Calibrated, mask: npt.NDArray[np.bool_]) -> float | None:
    """The expected precision of the same labels after a less lucky audit."""
    if not found.others or not mask.any():
        return None
    before, label = found.before[mask], np.nonzero(mask)[1]
    return float(np.quantile([other(before, label).mean() for other in found.others], LOW))


def right_of(mask: npt.NDArray[np.bool_], truth: npt.NDArray[np.bool_]) -> list[int]:
    """How many accepted labels of each class are right, where the truth is known."""
    found: list[int] = (mask & truth).sum(axis=0).tolist()
    return found


def summary(
    accepted: Accepted, classes: tuple[str, ...], truth: npt.NDArray[np.bool_] | None, hidden: int
) -> dict[str, Any]:
    """Plain values about accepted labels, with the truth beside them where it is known.

    Args:
        accepted: The labels.
        classes: Class names.
        truth: All labels, `[n, L]`.
        hidden: How many positives were not seen, if the truth is known.
    """
    right = None if truth is None else right_of(accepted.mask, truth)
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
