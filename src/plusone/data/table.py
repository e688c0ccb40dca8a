"""`LabelTable`: items, classes, seen and true labels, and splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.groups import random_items
from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError

Strings = npt.NDArray[np.str_]

# Names that columns have in data from elsewhere, in lower case. All readers use them, so that a
# column that is an id or a label for one is no feature for another; the first one present is taken.
ID_COLUMNS = ("image", "id", "item", "file", "filename", "path", "image_id", "file_name")
ID_ARRAYS = ("ids", "names", "image_ids")  # in npz files
LABEL_COLUMNS = ("labels", "label", "tags", "classes", "class", "categories", "category", "cls")
OTHER_COLUMNS = ("negatives", "truth", "named", "split", "group")  # of the long form
TEXT = "text"  # the column of texts, where the items are no files
TEXT_IDS = ("id", "item")  # beside which it is one; beside others (image, file) it is left out


def item_columns(names: Sequence[str]) -> tuple[str | None, str | None]:
    """Which of these columns have the ids and the texts of the items.

    >>> item_columns(["Text", "labels"]), item_columns(["image", "text"])
    ((None, 'Text'), ('image', None))
    """
    lowered = {name.lower(): name for name in reversed(names)}
    id_name = next((lowered[name] for name in ID_COLUMNS if name in lowered), None)
    files = id_name is not None and id_name.lower() not in TEXT_IDS
    return id_name, None if files else lowered.get(TEXT)


@dataclass(frozen=True)
class LabelTable:
    """Everything known about the labels of a data set.

    Args:
        ids: One unique name per item, `[N]`; for images the path below `root`.
        classes: Class names, `L` of them, unique.
        labels: The seen labels, `LabelMatrix` `[N, L]` in three states, default 0.
        truth: All labels, only for simulating annotators and for evaluation; default -1.
        split: Split of each item, `[N]`, in {"train", "val", "test"}; None if there is none.
        root: Folder of the image files; None if the items are not images.
        observation: How `labels` were simulated (scheme, seed, ...); empty if they were given.
        notes: Sentences about choices made by the reader, for the summary.
        groups: Group of each item, `[N]`, which no split or fold divides; None if there are none.
        hints: Scores of elsewhere in [0, 1], float32 `[N, L]`, see `plusone.data.hints`; NaN where
            there is none, None if there are none at all.
        named: Which seen positives people named, 1 in `[N, L]`; the others are answers to
            questions. None if all of them were named.
        texts: The text of each item, `N` of them, if the items are texts.
        hierarchy: Which class lies below which; labels follow it. None if no class has a parent.
    """

    ids: Strings
    classes: tuple[str, ...]
    labels: LabelMatrix
    truth: LabelMatrix | None = None
    split: Strings | None = None
    root: Path | None = None
    observation: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    groups: Strings | None = None
    hints: npt.NDArray[np.float32] | None = None
    named: LabelMatrix | None = None
    texts: tuple[str, ...] | None = None
    hierarchy: Hierarchy | None = None

    def __post_init__(self) -> None:
        n, n_classes = len(self.ids), len(self.classes)
        tables = (
            ("labels", self.labels),
            ("truth", self.truth),
            ("hints", self.hints),
            ("named", self.named),
        )
        for name, part in tables:
            if part is not None and part.shape != (n, n_classes):
                raise ValueError(f"{name} have shape {part.shape}, expected {(n, n_classes)}")
        if self.hierarchy is not None and len(self.hierarchy.parent) != n_classes:
            parents = len(self.hierarchy.parent)
            raise ValueError(f"the hierarchy has {parents} classes, the table {n_classes}")
        columns = (("split", self.split), ("groups", self.groups), ("texts", self.texts))
        for name, column in columns:
            if column is not None and len(column) != n:
                raise ValueError(f"{name} has {len(column)} entries for {n} items")

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def complete(
        cls,
        ids: Sequence[str] | Strings,
        classes: Sequence[str],
        truth: LabelMatrix,
        **rest: object,
    ) -> LabelTable:
        """A table whose labels are all known: the truth, with every label also seen."""
        return cls(np.asarray(ids, dtype=np.str_), tuple(classes), truth, truth, **rest)  # type: ignore[arg-type]

    @property
    def is_complete(self) -> bool:
        """Whether every label of every item is seen."""
        return self.labels.default == -1 and not (self.labels.values == 0).any()

    def take(self, rows: npt.ArrayLike) -> LabelTable:
        """The given rows, in the given order."""
        index = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            ids=self.ids[index],
            labels=self.labels.take(index),
            truth=None if self.truth is None else self.truth.take(index),
            split=None if self.split is None else self.split[index],
            groups=None if self.groups is None else self.groups[index],
            hints=None if self.hints is None else self.hints[index],
            named=None if self.named is None else self.named.take(index),
            texts=None if self.texts is None else tuple(self.texts[row] for row in index.tolist()),
        )

    def with_classes(self, names: Sequence[str]) -> LabelTable:
        """The same items with the given classes, in the given order; all of them must exist."""
        if tuple(names) == self.classes:
            return self
        columns = [self.classes.index(name) for name in names]
        truth = None if self.truth is None else self.truth.columns(columns)
        hints = None if self.hints is None else self.hints[:, columns]
        named = None if self.named is None else self.named.columns(columns)
        labels = self.labels.columns(columns)
        return replace(
            self,
            classes=tuple(names),
            labels=labels,
            truth=truth,
            hints=hints,
            named=named,
            hierarchy=None if self.hierarchy is None else self.hierarchy.of(columns),
        )

    def rows_of(self, split: str) -> npt.NDArray[np.int64]:
        """Row numbers of one split, ascending; a table without splits is all "train"."""
        if self.split is None:
            return np.arange(len(self)) if split == "train" else np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self.split == split)

    def path(self, row: int) -> Path:
        """The image file of one item."""
        if self.root is None:
            raise InputError(f"item {self.ids[row]} has no image file")
        return self.root / str(self.ids[row])


def hold_out_validation(table: LabelTable, *, share: float = 0.2, seed: int = 1200) -> LabelTable:
    """Marks a share of the training rows as validation, if the table has no validation rows.

    Protocol cole2021: `RandomState(seed).permutation(n)` over the training rows in order; the
    last `round(share * n)` are validation. If the table has groups, groups are permuted, and whole
    ones are validation.
    """
    if len(table.rows_of("val")):
        return table
    train = table.rows_of("train")
    validation = train[
        random_items(
            len(train),
            round(share * len(train)),
            lambda count: np.random.RandomState(seed).permutation(count)[::-1],
            None if table.groups is None else table.groups[train],
        )
    ]
    if table.groups is not None and 0 < len(train) == len(validation):
        raise InputError(
            "all training items are in one group, so none of them can be held out for validation; "
            "give validation items, or groups that are smaller"
        )
    split = np.full(len(table), "train", dtype="<U5") if table.split is None else table.split.copy()
    split[validation] = "val"
    return replace(table, split=split)
