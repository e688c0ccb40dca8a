"""Labelling new items by yes/no questions until a yes (LASD, section 5.1).

The classes of an item are asked about one by one in an order drawn at random for that item. The
first yes ends it, so the positive found is uniform among the item's positives: what methods for
single positives assume. The answers "no" on the way are kept as seen negatives.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.formats import read
from plusone.data.formats.checks import check_ids, id_array, missing_images
from plusone.data.formats.csv_text import header_of, id_column, read_class_list, records
from plusone.data.images import IMAGE_SUFFIXES
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems
from plusone.review.ledger import Verdict
from plusone.review.store import Pair


def read_unlabelled(data: Path, classes: Path | None) -> LabelTable:
    """The items of a folder or a table, with what is seen of their labels, if anything is.

    Args:
        data: A folder of images; a CSV file with a column of names alone; or a label table of any
            known form, in which items without a positive are the ones to label.
        classes: A file with one class name a line; a label table can do without.
    """
    if not data.exists():
        raise InputError(f"{data}: no such file or folder")
    names = None if classes is None else read_class_list(classes)
    if data.is_dir() and not (data / "labels.csv").is_file():
        return _bare(_images(data), _needed(names, data), data, Problems(data))
    if data.suffix.lower() == ".csv" and len(header := header_of(data)) == 1:
        return _listed(data, header, _needed(names, data))
    table = read(data, labels="seen", classes=names).table
    return replace(table, labels=table.labels.with_default(0), truth=None)


def _needed(names: tuple[str, ...] | None, data: Path) -> tuple[str, ...]:
    if names is None:
        raise InputError(f"{data}: says no classes; name a file of them with --classes")
    return names


def _images(folder: Path) -> list[str]:
    found = []
    for here, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if name[0] != ".")
        place = Path(here).relative_to(folder)
        found += [
            (place / name).as_posix()
            for name in sorted(files)
            if name[0] != "." and name.lower().endswith(IMAGE_SUFFIXES)
        ]
    if not found:
        raise InputError(f"{folder}: has no image in it")
    return found


def _listed(path: Path, header: list[str], classes: tuple[str, ...]) -> LabelTable:
    id_column(header, path)
    problems = Problems(path)
    rows = list(records(path, problems))[1:]
    ids = [cells[0].strip() for _, cells in rows]
    some = id_array(ids[:1000], path)
    exist = len(missing_images(some, path.parent)) < len(some)
    return _bare(ids, classes, path.parent if exist else None, problems)


def _bare(
    ids: list[str], classes: tuple[str, ...], root: Path | None, problems: Problems
) -> LabelTable:
    names = id_array(ids, problems.source)
    check_ids(names, problems)
    problems.raise_if_any()
    empty = LabelMatrix.from_entries([], [], [], (len(ids), len(classes)))
    return LabelTable(names, classes, empty, root=root)


WHOLE = ""  # in place of a class: the item itself


class NewItems:
    """Which item and which class to ask about next.

    Args:
        table: The items; those with a seen positive need no question.
        seed: Of the orders of the classes.
    """

    def __init__(self, table: LabelTable, seed: int) -> None:
        self.table = table
        self.seed = seed
        self.ids: list[str] = table.ids.tolist()
        self.rows = {name: row for row, name in enumerate(self.ids)}
        self.labels = {name: label for label, name in enumerate(table.classes)}
        self._asked_about = table.labels.per_item(1) == 0
        self._waiting = self._asked_about.copy()
        self._total = int(self._waiting.sum())
        self._left = np.full(len(table), len(table.classes)) - table.labels.per_item(-1)
        self._said: dict[int, dict[int, str]] = {}
        self._later: dict[int, int] = {}  # item put off -> row of the history
        self._counts = {"yes": 0, "no": 0, "skip": 0}

    def update(self, changed: Mapping[Pair, Verdict]) -> None:
        """Takes new verdicts in; those about other items or classes are passed over."""
        for (item, name), now in changed.items():
            row = self.rows.get(item)
            if row is None:
                continue
            if name == WHOLE:
                self._later.pop(row, None)
                if now.answer is not None:
                    self._later[row] = now.last
            elif name in self.labels:
                self._note(row, self.labels[name], now.answer)

    def order(self, row: int) -> npt.NDArray[np.int64]:
        """The classes of one item in the order in which they are asked about."""
        return np.random.default_rng([self.seed, row]).permutation(len(self.table.classes))

    def next(self, busy: Set[Pair], again: int, row: int | None = None) -> tuple[int, int] | None:
        """The item and the class to ask about; None if nothing is left, or only what others have.

        Args:
            busy: Items on other screens.
            again: Items put off up to this row of the history come again.
            row: An item to take if it still needs a question.
        """
        free = self._waiting & (self._left > 0)
        if row is not None and free[row]:
            return row, self._class(row)
        later = [put for put, at in self._later.items() if at > again]
        free[later] = False
        free[[self.rows[item] for item, _ in busy if item in self.rows]] = False
        found = np.flatnonzero(free)
        return (int(found[0]), self._class(int(found[0]))) if len(found) else None

    def number(self, row: int) -> int:
        """How many questions about an item were answered."""
        return len(self._said.get(row, ()))

    def progress(self) -> dict[str, Any]:
        """Items with a label, and the questions it took."""
        open_still = self._waiting & (self._left > 0)
        later = sum(bool(open_still[row]) for row in self._later)
        done = self._total - int(open_still.sum())
        asked = self._counts["yes"] + self._counts["no"]
        return {
            "questions": self._total,
            "answered": done,
            "left": self._total - done - later,
            "skipped": later,
            "without": int((self._waiting & ~open_still).sum()),
            "yes": self._counts["yes"],
            "no": self._counts["no"],
            "per_item": asked / done if done else None,
        }

    def _class(self, row: int) -> int:
        known = {*self._said.get(row, ()), *self._seen(row)}
        return int(next(label for label in self.order(row).tolist() if label not in known))

    def _seen(self, row: int) -> list[int]:
        own = self.table.labels
        return [int(label) for label in own.indices[own.indptr[row] : own.indptr[row + 1]]]

    def _note(self, row: int, label: int, answer: str | None) -> None:
        if not self._asked_about[row] or label in self._seen(row):
            return  # the table has learnt of it in the meantime
        said = self._said.setdefault(row, {})
        before = said.pop(label, None)
        if before is not None:
            self._counts[before] -= 1
            self._left[row] += 1
        if answer is not None:
            said[label] = answer
            self._counts[answer] += 1
            self._left[row] -= 1
        self._waiting[row] = "yes" not in said.values()
