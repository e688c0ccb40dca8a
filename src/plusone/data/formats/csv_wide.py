"""CSV in wide form: one column per class.

Cells are `1`, `0`, `-1` or empty. If any cell is `-1` or empty, the file has three states: 0 and
empty are unobserved. A file of `0` and `1` only is complete if some row has more than one
positive; otherwise 0 is unobserved (single positives). A file of `1` and `-1` only is complete.
The columns `split` and `group` are not classes, nor is `text`, if it has texts in it: see csv-long.
"""

from __future__ import annotations

import csv
import re
from array import array
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.checks import (
    LONGEST_ID,
    check_groups,
    check_ids,
    id_array,
    name_fault,
    split_name,
)
from plusone.data.dataset import Dataset
from plusone.data.formats import csv_text
from plusone.data.formats.base import ReadOptions, as_labels, images_root
from plusone.data.matrix import LabelMatrix
from plusone.data.table import TEXT, LabelTable, Strings
from plusone.errors import InputError, Problems
from plusone.io.files import replacing

CELLS = {"1": 1, "1.0": 1, "0": 0, "0.0": 0, "-0.0": 0, "-1": -1, "-1.0": -1, "": 0}
NUMBER = re.compile(r"[-+]?\.?\d")  # how a number begins
RESERVED = ("split", "group", "labels")


@dataclass
class _Body:
    ids: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lines: array[int] = field(default_factory=lambda: array("i"))
    columns: list[npt.NDArray[np.int32]] = field(default_factory=list)
    values: list[npt.NDArray[np.int8]] = field(default_factory=list)
    zeros: bool = False
    empties: bool = False
    negatives: bool = False
    most_positives: int = 0


def detects(path: Path) -> bool:
    """A CSV file that is not in long form, which is looked for first."""
    return path.is_file() and path.suffix.lower() == ".csv"


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads the file; the module docstring says what the cells mean."""
    problems = Problems(path)
    line, header, rows = csv_text.open_table(path, problems)
    first = list(islice(rows, 1))
    id_at, text_at = csv_text.text_columns(header, path)
    if text_at is not None and first and first[0][1][text_at].strip() in CELLS:
        id_at, text_at = csv_text.id_column(header, path), None  # a class of this name
    split_at, group_at = (csv_text.column(header, name) for name in RESERVED[:2])
    others = (id_at, text_at, split_at, group_at)
    class_at = [at for at in range(len(header)) if at not in others]
    classes = tuple(header[at] for at in class_at)
    _check_classes(classes, class_at, options.classes, problems, line)
    body = _Body()
    for line, row in chain(first, rows):
        body.lines.append(line)
        number = str(len(body.lines))
        body.ids.append(number if id_at is None else row[id_at].strip()[:LONGEST_ID])
        if text_at is not None:
            body.texts.append(csv_text.as_text(row[text_at]))
        if split_at is not None:
            split = split_name(row[split_at])
            if split is None:
                problems.add(f"split {row[split_at]!r} is not train, val or test", row=line)
            body.splits.append(split or "")
        if group_at is not None:
            body.groups.append(row[group_at].strip())
        cells = [row[at] for at in class_at]
        if len(body.ids) == 1:
            _check_first(cells, classes, path, line)
        _add_cells(body, cells, classes, problems, line)
    if not body.ids and not problems:
        problems.add("has a header but no rows")
    ids = id_array(body.ids, path)
    check_ids(ids, problems, body.lines)
    groups = None if group_at is None else id_array(body.groups, path, "groups")
    if groups is not None:
        _check_groups(groups, problems, body.lines)
    usual = None if text_at is not None else csv_text.sidecar_root(ids, path)
    root, notes = images_root(ids, usual, options, problems, body.lines)
    problems.raise_if_any()
    counts = [len(part) for part in body.columns]
    labels = LabelMatrix.from_entries(
        np.repeat(np.arange(len(ids)), counts),
        np.concatenate(body.columns),
        np.concatenate(body.values),
        (len(ids), len(classes)),
    )
    split_array = np.asarray(body.splits, dtype="<U5") if split_at is not None else None
    table = LabelTable(
        ids,
        classes,
        labels,
        split=split_array,
        root=root,
        notes=notes,
        groups=groups,
        texts=None if text_at is None else tuple(body.texts),
    )
    table = _interpret(table, body, options.labels)
    return Dataset(csv_text.with_sidecar(table, path), name=path.stem)


def _check_groups(groups: Strings, problems: Problems, lines: array[int]) -> None:
    if all(name in CELLS for name in np.unique(groups).tolist()):
        problems.add(
            "the column 'group' has the groups that items belong to, and here it has only 1, 0, -1 "
            "or empty cells, as a class has; give it another name, or the groups other names",
            row=1,
        )
    else:
        check_groups(groups, problems, lines)


def _check_classes(
    classes: tuple[str, ...],
    class_at: list[int],
    allowed: tuple[str, ...] | None,
    problems: Problems,
    line: int,
) -> None:
    first = dict(zip(reversed(classes), reversed(class_at), strict=True))
    for name, at in zip(classes, class_at, strict=True):
        if fault := name_fault(name):
            problems.add(f"class name {name!r} of column {at + 1} {fault}", row=line)
        elif first[name] != at:
            problems.add(f"class {name!r} occurs twice", row=line)
        elif allowed is not None and name not in allowed:
            problems.add(f"class {name!r} is unknown", row=line)
    if not classes:
        problems.add("has no class column", row=line)


def _check_first(cells: list[str], classes: tuple[str, ...], path: Path, line: int) -> None:
    """Refuses a file whose first row has words where the wide form has numbers."""
    words = [cell.strip() for cell in cells]
    if any(word in CELLS for word in words if word):
        return
    for name, word in zip(classes, words, strict=True):
        if word and not NUMBER.match(word):
            raise InputError(
                f"{path}, row {line}: column {name!r} has {word!r} in it, not 1, 0, -1 or empty; "
                "if these are the labels of the items, name the column 'labels' (several labels "
                "in a cell: cat|dog), or else remove it"
            )


def _add_cells(
    body: _Body, cells: list[str], classes: tuple[str, ...], problems: Problems, line: int
) -> None:
    text = "".join(cells)
    zeros = text.count("0")
    if len(text) == len(cells) == zeros + text.count("1") and "" not in cells:
        states = np.frombuffer(text.encode("ascii"), dtype=np.int8) - np.int8(48)
        body.zeros |= zeros > 0
    else:
        stripped = [cell.strip() for cell in cells]
        for name, cell in zip(classes, stripped, strict=True):
            if cell not in CELLS:
                problems.add(f"{cell!r} for class {name!r} is not 1, 0, -1 or empty", row=line)
        states = np.array([CELLS.get(cell, 0) for cell in stripped], dtype=np.int8)
        empty = stripped.count("")
        body.empties |= empty > 0
        body.negatives |= bool((states == -1).any())
        body.zeros |= int((states == 0).sum()) > empty
    where = np.flatnonzero(states).astype(np.int32)
    values = states[where]
    body.columns.append(where)
    body.values.append(values)
    body.most_positives = max(body.most_positives, int((values == 1).sum()))


def _interpret(table: LabelTable, body: _Body, mode: str) -> LabelTable:
    if mode != "auto":
        return table if mode == "seen" else as_labels(table, mode)
    if body.negatives and not body.zeros and not body.empties:
        labels = table.labels.with_default(-1)
        note = "every cell is 1 or -1: the labels are complete"
        return replace(table, labels=labels, truth=labels, notes=(*table.notes, note))
    if body.negatives or body.empties:
        note = "there are -1 or empty cells: 0 and empty were taken as unobserved"
        return replace(table, notes=(*table.notes, note))
    if body.most_positives > 1:
        truth = table.labels.only_positives(default=-1)
        note = "only 0 and 1, rows with several positives: the labels were taken as complete"
        return replace(table, labels=truth, truth=truth, notes=(*table.notes, note))
    note = "only 0 and 1, no row with several positives: 0 was taken as unobserved"
    return replace(table, notes=(*table.notes, note))


def check_csv_wide(table: LabelTable, path: Path) -> None:
    """Raises `InputError` if a name would not survive a round trip through the wide form."""
    csv_text.check_writable(iter(table.classes), "class", path)
    taken = RESERVED if table.texts is None else (*RESERVED, TEXT)
    for name in table.classes:
        if name.lower() in taken:
            raise InputError(f"{path}: class {name!r} has the name of a column; write npz instead")


def write(data: Dataset, path: Path) -> None:
    """Writes the table in wide form, which cannot hold both seen labels and a different truth."""
    table = data.table
    complete = table.is_complete
    truth, labels = table.truth, table.labels
    same = truth is labels or (truth is not None and truth.digest() == labels.digest())
    if truth is not None and not (complete and same):
        raise InputError(
            f"{path}: the wide form cannot hold both seen labels and a truth; "
            "write csv-long, npz or parquet"
        )
    check_csv_wide(table, path)
    several = bool((table.labels.per_item(1) > 1).any())
    cell_of = {1: "1", 0: "0", -1: "-1"}
    if complete and several:
        cell_of[-1] = "0"
    elif not complete and several and not (table.labels.values == -1).any():
        cell_of[0] = ""  # a file of 0 and 1 only would be read as complete
    columns = {"split": table.split, "group": table.groups}
    extra = {name: values for name, values in columns.items() if values is not None}
    if table.groups is not None:
        csv_text.check_writable(iter(np.unique(table.groups).tolist()), "group", path)
        if set(table.groups.tolist()) <= CELLS.keys():
            raise InputError(
                f"{path}: the groups are named 0, 1 or -1, as the cells of a class are; give them "
                "other names, or write csv-long, npz or parquet"
            )
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        items = csv_text.item_cells(table, path)
        writer.writerow([*items, *extra, *table.classes])
        for row, own in enumerate(zip(*items.values(), *extra.values(), strict=True)):
            cells = [cell_of[state] for state in table.labels.dense([row])[0].tolist()]
            writer.writerow([*own, *cells])
    csv_text.write_sidecar(table, path)
