"""Which suggestions to accept without a review, for a target precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.errors import InputError
from plusone.probabilities.bound import precision_at_least
from plusone.probabilities.curve import Floats, States
from plusone.probabilities.unseen_labels import Calibrated, Checked

FEWEST = 12  # labels that are accepted, one per group; an expectation says little about fewer
FEWEST_AUDITED = 60  # groups; corrected by fewer, expectations were too high (evidence/promises.md)


@dataclass(frozen=True)
class Accepted:
    """Labels that are accepted at a target precision.

    Args:
        target: The target precision.
        mask: Which entries are accepted, bool `[n, L]`.
        threshold: The lowest probability that is accepted in each class, `[L]`; NaN where none is.
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


def largest_set(
    probabilities: Floats, target: float, others: Sequence[Floats] = ()
) -> npt.NDArray[np.bool_]:
    """The largest set whose mean probability is at least the target: the most probable ones.

    Args:
        probabilities: `[m]`.
        target: The least mean.
        others: The same probabilities fitted without each part of an audit, `[m]` each. The mean
            less its standard error (of the jackknife) then has to reach the target.

    >>> largest_set(np.array([0.7, 0.99, 0.95, 0.2]), 0.9).tolist()
    [False, True, True, False]
    """
    order = np.argsort(-probabilities, kind="stable")
    numbers = np.arange(1, len(order) + 1)
    least = np.cumsum(probabilities[order]) / numbers
    if others:
        means = np.stack([np.cumsum(other[order]) / numbers for other in others])
        least = least - np.sqrt((len(others) - 1) * means.var(axis=0))
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
    not accepted; the same label of several items of a group counts as one of these. Nothing is
    accepted where the items have groups and the audit fewer than `FEWEST_AUDITED` of them.

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
    row, label = np.nonzero(mask)
    if len(np.unique((row if groups is None else groups[row]) * n_classes + label)) < FEWEST:
        mask[:] = False
    if checked is not None and too_few_groups(checked.answers.n_groups):
        mask[:] = False
    low, counts = None, None
    if checked is not None and mask.any():
        accepted, right = _audited(checked, calibrated, unknown, mask, parts)
        low = precision_at_least(accepted, right, int(mask.sum()))
        counts = (int(accepted.sum()), int(right.sum()))
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


def too_few_groups(n_groups: int | None) -> bool:
    """Whether answers about so many groups are too few for a target precision to be met.

    >>> too_few_groups(59), too_few_groups(None)
    (True, False)
    """
    return n_groups is not None and n_groups < FEWEST_AUDITED


def _audited(
    checked: Checked,
    calibrated: Calibrated,
    unknown: npt.NDArray[np.bool_],
    mask: npt.NDArray[np.bool_],
    parts: Sequence[npt.NDArray[np.int64]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Labels of audited items that would be accepted, and how many are right, `[units]` each.

    They are counted for each group, or each item if there are no groups (`Answers.unit`). What
    would be accepted of an item is decided by a correction that was fitted without its unit: as
    many labels as have the same mean probability as those that are accepted.
    """
    label, yes = checked.answers.label, checked.answers.yes
    chosen = np.zeros(len(label), dtype=bool)
    for fold, correction in enumerate(checked.corrections):
        own = checked.fold == fold
        p, audited = correction(calibrated.before), correction(checked.before[own], label[own])
        threshold = np.full(p.shape[1], np.inf)
        for part in parts:
            if mask[:, part].any():
                expected = float(calibrated.probabilities[:, part][mask[:, part]].mean())
                values = p[:, part][unknown[:, part]]
                threshold[part] = values[largest_set(values, expected)].min(initial=np.inf)
        chosen[own] = audited >= threshold[label[own]]
    _, unit = np.unique(checked.answers.unit, return_inverse=True)
    accepted, right = np.bincount(unit, chosen), np.bincount(unit, chosen & yes)
    return accepted.astype(np.int64), right.astype(np.int64)


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
