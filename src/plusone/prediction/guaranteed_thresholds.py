"""Thresholds of a run for a wanted precision or recall (`plusone.probabilities.guarantees`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.data.groups import group_numbers
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.prediction import checkpoint
from plusone.prediction.load import MEMORY
from plusone.prediction.run_folder import read_observed
from plusone.probabilities.bound import Floats, counted
from plusone.probabilities.calibration import Calibration
from plusone.probabilities.guarantees import (
    LEVEL,
    Labels,
    Tested,
    fewest,
    fixed_list,
    items_needed,
    precision_threshold,
    recall_threshold,
)
from plusone.probabilities.left_out import LEAST, NONE, PREFIX, LeftOut
from plusone.probabilities.thresholds import Thresholds

NEVER = 1.0  # the threshold of a class that is not predicted
SHOWN = 5  # classes that a sentence names
LIKE = "this holds for new items of the same kind as these"


@dataclass(frozen=True)
class Guaranteed:
    """Thresholds with a guarantee.

    Args:
        thresholds: One per class; `NEVER` where none can be given.
        kind: "precision" or "recall".
        target: The wanted precision or recall.
        per_class: Whether it holds for each class by itself.
        sentences: What is guaranteed, by what, and for which classes it is not.
        without: Classes without a guarantee of their own.
    """

    thresholds: Thresholds
    kind: str
    target: float
    per_class: bool
    sentences: tuple[str, ...]
    without: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            self.kind: self.target,
            "confidence": LEVEL,
            "per_class": self.per_class,
            "without": list(self.without),
            "sentence": "; ".join(self.sentences),
        }


@dataclass(frozen=True)
class _Items:
    """The held-out items of a run.

    Args:
        kept: What the run keeps of them.
        p: Calibrated probability of each label that is kept, `[m]`.
        unit: Item or group of each item, `[n]`.
        classes: Class names.
        calibrated: Whether `p` are probabilities.
        audited: Number of items of the audit.
    """

    kept: LeftOut
    p: Floats
    unit: npt.NDArray[np.int64]
    classes: Sequence[str]
    calibrated: bool
    audited: int

    def __len__(self) -> int:
        return len(self.kept.row)

    @property
    def item(self) -> npt.NDArray[np.int64]:
        return self.kept.item.numpy().astype(np.int64)

    @property
    def label(self) -> npt.NDArray[np.int64]:
        return self.kept.label.numpy().astype(np.int64)

    @property
    def complete(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.kept.complete.numpy())


def guaranteed_thresholds(
    run: Path,
    calibration: Calibration,
    classes: Sequence[str],
    *,
    precision: float | None = None,
    recall: float | None = None,
    per_class: bool = False,
    audit: LabelTable | None = None,
) -> Guaranteed:
    """Thresholds with a guaranteed precision or recall.

    Args:
        run: The run folder.
        calibration: Its calibration.
        classes: Its classes.
        precision: The wanted precision; or
        recall: the wanted recall.
        per_class: Whether every class must reach it by itself.
        audit: All labels of some items, drawn at random.

    Raises:
        InputError: It cannot be guaranteed; the message says what would help.
    """
    target = precision if precision is not None else recall
    if target is None or (precision is not None and recall is not None):
        raise InputError("name either a precision or a recall")
    if not 0 < target < 1:
        raise InputError(f"a precision or recall lies between 0 and 1, not {target:g}")
    items = _held_out(run, calibration, classes, audit)
    if precision is not None:
        return _precision(items, target, per_class)
    return _recall(items, target, per_class)


def _precision(items: _Items, target: float, per_class: bool) -> Guaranteed:
    """See `plusone.probabilities.guarantees`."""
    complete, audited = items.complete, int(items.complete.sum())
    groups = range(len(items.classes)) if per_class else [None]
    values, tested, without = np.full(len(items.classes), NEVER), [], []
    missing: list[tuple[int, str]] = []
    for label in groups:
        own = slice(None) if label is None else items.label == label
        every = Labels(items.p[own], items.unit[items.item[own]])
        known = complete[items.item[own]]
        right = items.kept.positive.numpy()[own][known]
        thresholds = fixed_list(every, audited / len(items), target)
        thresholds = thresholds[thresholds >= LEAST]  # below it not all labels are kept
        found = Tested(None, 0, 0)
        if audited:
            labels = Labels(every.p[known], every.unit[known], right)
            found = precision_threshold(labels, thresholds, target)
        if found.threshold is None:
            more = items_needed(every, len(items), target)
            missing += (
                [] if more is None else [(more, "" if label is None else items.classes[label])]
            )
            without += [] if label is None else [items.classes[label]]
        else:
            values[slice(None) if label is None else label] = found.threshold
        tested.append(found)
    if all(one.threshold is None for one in tested):
        raise InputError(_no_precision(items, target, audited, missing, per_class))
    good = [one for one in tested if one.threshold is not None]
    number, right_ones = sum(one.labels for one in good), sum(one.right for one in good)
    sentences = [
        f"precision: at least {100 * target:g} % of the predicted labels are right "
        f"({_confidence(per_class)}): of {audited} audited items {number} labels would be "
        f"predicted, and {right_ones} of them are right; {LIKE}, if the audited ones were drawn "
        "at random"
    ]
    if without:
        sentences.append(
            f"{len(without)} classes are never predicted, as the audit says too little about them: "
            f"{_named(without)}" + _more(missing, audited)
        )
    return Guaranteed(
        Thresholds(tuple(values.tolist()), "precision"),
        "precision",
        target,
        per_class,
        tuple(sentences),
        tuple(without),
    )


def _no_precision(
    items: _Items,
    target: float,
    audited: int,
    missing: Sequence[tuple[int, str]],
    per_class: bool,
) -> str:
    """Why a precision cannot be guaranteed, and what would help."""
    why = f"{audited} audited items are too few, or too many of their labels are wrong"
    if not audited:
        why = "of no held-out item all labels are known; audit some, drawn at random (--audit FILE)"
        if items.audited:
            why = (
                f"none of the {items.audited} items of the audit was held out by this run; audit "
                f"some of its {len(items)} held-out items (observed.npz of the run names them)"
            )
    if missing:
        return (
            f"a precision of {100 * target:g} % cannot be guaranteed: {why}"
            f"{_more(missing, audited)}"
        )
    lower = "" if not per_class else ", or leave out --per-class"
    return (
        f"a precision of {100 * target:g} % cannot be guaranteed: {why}; by its own probabilities "
        f"the model does not reach it however many are audited; ask for less{lower}"
    )


def _more(missing: Sequence[tuple[int, str]], audited: int) -> str:
    """How many further audited items would probably do."""
    if not missing:
        return ""
    number, name = min(missing)
    count = max(number - audited, max(number // 4, 1))
    what = f"{count} more" if audited else f"{count}"
    return f"; about {what} audited items would probably do{f' for {name}' if name else ''}"


def _recall(items: _Items, target: float, per_class: bool) -> Guaranteed:
    """See `plusone.probabilities.guarantees`."""
    if not items.calibrated:
        raise InputError(
            "a recall cannot be guaranteed: the scores of this run are not calibrated, and how "
            "many labels an item has is not known without"
        )
    positives, weight = _positives(items)
    p, label, unit = items.p[positives], items.label[positives], items.unit[items.item[positives]]
    every = recall_threshold(p, weight, unit, target)
    if every is None:
        raise InputError(
            f"a recall of {100 * target:g} % cannot be guaranteed: the {len(p)} positives of "
            f"held-out items count as {counted(weight, unit):.0f}, and {fewest(target)} are needed"
        )
    values, without = np.full(len(items.classes), every), []
    if per_class:
        own = [label == number for number in range(len(items.classes))]
        found = [recall_threshold(p[one], weight[one], unit[one], target) for one in own]
        few = np.isin(label, [number for number, one in enumerate(found) if one is None])
        pooled = recall_threshold(p[few], weight[few], unit[few], target)
        values[:] = [one if one is not None else pooled or every for one in found]
        without = [items.classes[number] for number, one in enumerate(found) if one is None]
    sentences = [
        f"recall: at least {100 * target:g} % of the labels that items have are predicted "
        f"({_confidence(per_class)}), by {len(p)} positives of {len(items)} held-out items; "
        f"{LIKE}, if each seen label was picked as the probabilities assume"
    ]
    if without:
        sentences.append(
            f"{len(without)} classes have fewer than {fewest(target)} held-out positives, counted "
            f"by their weights, and share one threshold for all of them: {_named(without)}"
        )
    return Guaranteed(
        Thresholds(tuple(values.tolist()), "recall"),
        "recall",
        target,
        per_class,
        tuple(sentences),
        tuple(without),
    )


def _positives(items: _Items) -> tuple[npt.NDArray[np.int64], Floats]:
    """Places of held-out positives among the labels that are kept, and their weights."""
    item, positive, complete = items.item, items.kept.positive.numpy(), items.complete
    named = items.label == items.kept.pick.numpy()[item]
    chosen = np.flatnonzero(positive & (complete[item] | named))
    weight = items.kept.weight.numpy().astype(np.float64)[item[chosen]]
    return chosen, np.where(complete[item[chosen]], 1.0, weight)


def kept_of(run: Path) -> LeftOut:
    """The scores of held-out items that a run has kept."""
    path = run / MEMORY
    kept = LeftOut.of(checkpoint.load(path, PREFIX)[0]) if path.exists() else None
    if kept is None or not len(kept.row):
        raise InputError(
            f"{run}: holds no scores of held-out items, from which a guarantee follows; exported "
            "models and runs of earlier versions have none: train again, or use the run itself"
        )
    return kept


def _held_out(
    run: Path, calibration: Calibration, classes: Sequence[str], audit: LabelTable | None
) -> _Items:
    """The held-out items of a run, with the labels of an audit."""
    kept = kept_of(run)
    table = read_observed(run)
    if audit is not None:
        kept = _with_audit(kept, table, audit)
    p = kept.probabilities(calibration)
    rows = kept.row.numpy()
    unit = np.arange(len(rows)) if table.groups is None else group_numbers(table.groups)[rows]
    audited = 0 if audit is None else len(audit)
    return _Items(kept, p, unit, classes, calibration.calibrated, audited)


def _with_audit(kept: LeftOut, table: LabelTable, audit: LabelTable) -> LeftOut:
    """What is kept, with all labels of the audited items among them."""
    columns = {name: column for column, name in enumerate(table.classes)}
    if unknown := [name for name in audit.classes if name not in columns]:
        raise InputError(f"the audit has classes that the run does not know: {_named(unknown)}")
    places = {name: place for place, name in enumerate(table.ids[kept.row.numpy()].tolist())}
    pairs = [(places[name], row) for row, name in enumerate(audit.ids.tolist()) if name in places]
    if not pairs:
        return kept
    at, source = np.array(pairs, dtype=np.int64).T
    unmarked = 0 if audit.labels.per_item(-1).any() else -1  # no negatives: all labels are given
    known = np.full((len(at), len(table.classes)), unmarked, dtype=np.int8)
    states = audit.labels.dense(source)
    known[:, [columns[name] for name in audit.classes]] = np.where(states == 0, unmarked, states)
    whole = (known != 0).all(axis=1)
    at, known = at[whole], known[whole]
    row_of = np.full(len(kept.row), NONE)
    row_of[at] = np.arange(len(at))
    item, label = kept.item.numpy(), kept.label.numpy()
    audited = row_of[item] != NONE
    positive = kept.positive.numpy().copy()
    positive[audited] = known[row_of[item[audited]], label[audited]] == 1
    stored = np.zeros(known.shape, dtype=bool)
    stored[row_of[item[audited]], label[audited]] = True
    lost, lost_label = np.nonzero((known == 1) & ~stored)  # improbable, yet there: missed for sure
    complete = kept.complete.numpy().copy()
    complete[at] = True

    def joined(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([old, new.astype(old.dtype)]))

    return replace(
        kept,
        complete=torch.from_numpy(complete),
        item=joined(item, at[lost]),
        label=joined(label, lost_label),
        log_odds=joined(kept.log_odds.numpy(), np.full(len(lost), -100.0)),
        positive=joined(positive, np.ones(len(lost))),
    )


def _confidence(per_class: bool) -> str:
    confidence = f"{100 * LEVEL:g} % confidence"
    return f"in each class by itself, {confidence} for each" if per_class else confidence


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} others"
