"""Summary statistics of a label table, for `plusone inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from plusone.data.checks import main_class_warnings, name_warnings
from plusone.data.groups import group_numbers
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable


@dataclass(frozen=True)
class Spread:
    """Distribution of a count over the items."""

    least: int
    mean: float
    most: int
    items: Mapping[int, int]


@dataclass(frozen=True)
class ClassCount:
    """One class: the number of items where it is seen positive, seen negative, truly positive."""

    name: str
    seen_positive: int
    seen_negative: int
    true_positive: int | None


@dataclass(frozen=True)
class HintCounts:
    """Items with a hint by split ("all" if there are no splits), and classes with one."""

    items: Mapping[str, int]
    classes: int


@dataclass(frozen=True)
class Summary:
    """The result of `summarise`.

    Args:
        splits: Split -> items; empty if the table has no splits.
        positives: Seen positives per item.
        unobserved_share: Share of the `N * L` labels that are unobserved.
        complete: Whether every label of every item is seen.
        classes_without_positive: Names of classes that are positive in no item.
        true_positives: True positives per item; None without true labels.
        divided_groups: Groups with items in several splits.
        warnings: Sentences about class names that are probably mistakes, and about one class that
            has most of the labels.
    """

    items: int
    classes: int
    splits: Mapping[str, int]
    images: bool
    positives: Spread
    seen_positives: int
    seen_negatives: int
    unobserved_share: float
    rows_without_positive: int
    rows_with_several: int
    complete: bool
    per_class: tuple[ClassCount, ...]
    classes_without_positive: tuple[str, ...]
    truth: bool
    true_positives: Spread | None
    observation: Mapping[str, object]
    notes: tuple[str, ...]
    groups: int | None = None
    largest_group: int | None = None
    divided_groups: int | None = None
    hints: HintCounts | None = None
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return asdict(self)


def summarise(table: LabelTable) -> Summary:
    """Computes the summary of a table.

    >>> labels = LabelMatrix.from_dense([[1, 0], [0, 0]])
    >>> summarise(LabelTable(np.array(["a", "b"]), ("x", "y"), labels)).rows_without_positive
    1
    """
    labels = table.labels
    positives, negatives = labels.per_item(1), int(labels.per_class(-1).sum())
    per_class = labels.per_class(1)
    cells = len(table) * len(table.classes)
    true = None if table.truth is None else table.truth.per_class(1).tolist()
    counts = {split: len(table.rows_of(split)) for split in ("train", "val", "test")}
    seen = dict(zip(table.classes, per_class.tolist(), strict=True))
    main = [] if table.truth is not None else main_class_warnings(seen)
    return Summary(
        items=len(table),
        classes=len(table.classes),
        splits={} if table.split is None else {k: n for k, n in counts.items() if n},
        images=table.root is not None,
        positives=_spread(labels),
        seen_positives=int(positives.sum()),
        seen_negatives=negatives,
        unobserved_share=(cells - int(positives.sum()) - negatives) / cells if cells else 0.0,
        rows_without_positive=int((positives == 0).sum()),
        rows_with_several=int((positives > 1).sum()),
        complete=table.is_complete,
        per_class=tuple(
            ClassCount(name, positive, negative, None if true is None else true[label])
            for label, (name, positive, negative) in enumerate(
                zip(table.classes, per_class.tolist(), labels.per_class(-1).tolist(), strict=True)
            )
        ),
        classes_without_positive=tuple(
            name for name, seen in zip(table.classes, per_class, strict=True) if not seen
        ),
        truth=table.truth is not None,
        true_positives=None if table.truth is None else _spread(table.truth),
        observation=dict(table.observation),
        notes=table.notes,
        hints=_hints(table),
        warnings=tuple(name_warnings(seen) + main),
        **_groups(table),
    )


def _groups(table: LabelTable) -> dict[str, int]:
    if table.groups is None:
        return {}
    number = group_numbers(table.groups)
    sizes = np.bincount(number)
    split = np.zeros(len(table)) if table.split is None else group_numbers(table.split)
    pairs = np.unique(np.stack([number, split]), axis=1)[0].astype(np.int64)
    return {
        "groups": len(sizes),
        "largest_group": int(sizes.max(initial=0)),
        "divided_groups": int((np.bincount(pairs) > 1).sum()),
    }


def _hints(table: LabelTable) -> HintCounts | None:
    if table.hints is None:
        return None
    known = ~np.isnan(table.hints)
    rows = np.asarray(known.any(axis=1))
    names = () if table.split is None else ("train", "val", "test")
    counts = {name: int(rows[table.rows_of(name)].sum()) for name in names}
    return HintCounts(
        items={name: count for name, count in counts.items() if count} or {"all": int(rows.sum())},
        classes=int(known.any(axis=0).sum()),
    )


def _spread(matrix: LabelMatrix) -> Spread:
    counts = matrix.per_item(1)
    if not len(counts):
        return Spread(0, 0.0, 0, {})
    values, items = np.unique(counts, return_counts=True)
    histogram = dict(zip(values.tolist(), items.tolist(), strict=True))
    return Spread(int(values[0]), float(counts.mean()), int(values[-1]), histogram)
