"""CSV in long form: `image,labels[,negatives][,truth][,named][,split][,group]`, names with `|`.

`labels` are seen positives, `negatives` seen negatives (`*`: every other class), `truth` all
positives, `named` the seen positives that people named (the others are answers to questions),
`group` the group that an item belongs to. The classes are the names that occur, sorted;
a file `<file>.classes.txt` or `classes.txt` beside it (one name per line) fixes them, and other
names are then errors.

Photo programs and spreadsheets call the labels `Keywords` or `Tags` and separate them by commas or
semicolons. Of such a file other columns are left out, and a name that is given twice counts once.

With a column `text` the items are texts: `text,labels` and, if there are any, `id` and the columns
above. Items without `id` are numbered from 1, and other columns are left out.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.checks import (
    CHUNK,
    LONGEST_ID,
    check_groups,
    check_ids,
    check_width,
    id_array,
    split_name,
)
from plusone.data.dataset import Dataset
from plusone.data.formats import csv_text
from plusone.data.formats._longform import (
    ALL_OTHERS,
    ClassCodes,
    Lists,
    assemble,
    columns_of,
)
from plusone.data.formats.base import ReadOptions, images_root
from plusone.data.matrix import LabelMatrix
from plusone.data.table import ID_COLUMNS, OTHER_COLUMNS, TEXT, LabelTable, Strings
from plusone.errors import InputError, Problems
from plusone.io.files import replacing, write_text

COLUMNS = ("labels", *OTHER_COLUMNS)


SEPARATORS = (";", ",", csv_text.SEPARATOR)  # of keywords
KEYWORDS = ("keywords", "tags", "keyword", "tag", "label")  # the labels of other programs
NUMBERS = {"", "0", "1", "-1", "0.0", "1.0", "-1.0"}  # cells of the wide form
LOOKED_AT = 100  # rows


class _Names:
    """One column of separated names, as codes.

    Args:
        codes: The classes.
        separator: What is between the names.
        foreign: Whether another program wrote them: names may be empty or given twice.
    """

    def __init__(self, codes: ClassCodes, separator: str, *, foreign: bool = False) -> None:
        self.codes, self.separator, self.foreign = codes, separator, foreign
        self.entries = array("i")
        self.counts = array("i")
        self.starred = array("q")

    def add(self, cell: str, line: int) -> None:
        code = self.codes.known.get(cell)
        if code is not None:
            self.entries.append(code)
            self.counts.append(1)
            return
        count = 0
        names = [name.strip() for name in cell.split(self.separator)] if cell.strip() else []
        for name in dict.fromkeys(filter(None, names)) if self.foreign else names:
            if not name:
                self.codes.problems.add(f"an empty class name in {cell!r}", row=line)
                continue
            code = self.codes.code(name, line)
            if code is not None:
                self.entries.append(code)
                count += 1
        self.counts.append(count)

    def add_or_star(self, cell: str, line: int) -> None:
        if cell.strip() == ALL_OTHERS:
            self.starred.append(len(self.counts))
            self.counts.append(0)
        else:
            self.add(cell, line)

    def lists(self) -> Lists:
        return Lists(
            np.frombuffer(self.entries, dtype=np.int32) if self.entries else np.zeros(0, np.int32),
            np.frombuffer(self.counts, dtype=np.int32) if self.counts else np.zeros(0, np.int32),
            np.array(self.starred, dtype=np.int64),
        )


def detects(path: Path) -> bool:
    """A CSV file with a `labels` column, or one of keywords that are no numbers."""
    return (
        path.is_file()
        and path.suffix.lower() == ".csv"
        and _labels_at(path, csv_text.header_of(path)) is not None
    )


def _labels_at(path: Path, header: list[str]) -> int | None:
    """Position of the column of labels; None if there is none."""
    named = csv_text.column(header, "labels")
    if named is not None or csv_text.column(header, *ID_COLUMNS, TEXT) is None:
        return named
    place = csv_text.column(header, *KEYWORDS)
    if place is None or {cell.strip() for cell in _cells_at(path, place, LOOKED_AT)} <= NUMBERS:
        return None
    return place


def _cells_at(path: Path, place: int, most: int | None = None) -> Iterator[str]:
    """The cells of a column, of the first rows or of all."""
    _, _, rows = csv_text.open_table(path, Problems(path))
    return (row[place] for _, row in islice(rows, most))


def _separator(path: Path, place: int) -> str:
    """What separates keywords: semicolons if there are any, else commas, else `|`."""
    marks: set[str] = set()
    for cell in _cells_at(path, place):
        marks.update(mark for mark in SEPARATORS if mark in cell)
    return next((mark for mark in SEPARATORS if mark in marks), csv_text.SEPARATOR)


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads the file row by row; a million rows need about 300 MB."""
    problems = Problems(path)
    line, header, rows = csv_text.open_table(path, problems)
    id_at, text_at = csv_text.text_columns(header, path)
    at = {name: csv_text.column(header, name) for name in COLUMNS}
    foreign = at["labels"] is None and (place := _labels_at(path, header)) is not None
    if foreign:
        at["labels"] = place
    lenient = foreign or text_at is not None
    left_out = _check_header(header, (id_at, text_at), at, problems, line, lenient=lenient)
    problems.raise_if_any()
    given = options.separator
    separator = given or (_separator(path, place or 0) if foreign else csv_text.SEPARATOR)
    codes = ClassCodes(_class_list(path, options), problems)
    loose = foreign or given is not None
    names = {
        name: _Names(codes, separator, foreign=loose)
        for name in COLUMNS[:4]
        if at[name] is not None
    }
    labels_at, negatives_at, truth_at, named_at, split_at, group_at = (at[name] for name in COLUMNS)
    lines, splits = array("i"), bytearray()
    texts: list[str] = []
    groups: list[str] = []
    group_names: dict[str, str] = {}  # one string for the items of a group
    chunks: list[Strings] = []
    chunk: list[str] = []
    kinds = ("train", "val", "test")
    for line, row in rows:
        lines.append(line)
        chunk.append(str(len(lines)) if id_at is None else row[id_at].strip()[:LONGEST_ID])
        if len(chunk) == CHUNK:
            chunks.append(np.array(chunk, dtype=np.str_))
            chunk.clear()
        names["labels"].add(row[labels_at or 0], line)
        if negatives_at is not None:
            names["negatives"].add_or_star(row[negatives_at], line)
        if truth_at is not None:
            names["truth"].add(row[truth_at], line)
        if named_at is not None:
            names["named"].add(row[named_at], line)
        if text_at is not None:
            texts.append(csv_text.as_text(row[text_at]))
        if split_at is not None:
            split = split_name(row[split_at])
            if split is None:
                problems.add(f"split {row[split_at]!r} is not train, val or test", row=line)
            splits.append(kinds.index(split or "train"))
        if group_at is not None:
            group = row[group_at].strip()[:LONGEST_ID]
            groups.append(group_names.setdefault(group, group))
    if not lines and not problems:
        problems.add("has a header but no rows")
    chunks.append(np.array(chunk, dtype=np.str_))
    check_width(len(lines), max(part.dtype.itemsize for part in chunks) // 4, path)
    ids = np.concatenate(chunks)
    chunks.clear()
    check_ids(ids, problems, lines)
    group_array = None if group_at is None else id_array(groups, path, "groups")
    if group_array is not None:
        check_groups(group_array, problems, lines)
    usual = None if text_at is not None else csv_text.sidecar_root(ids, path)
    root, notes = images_root(ids, usual, options, problems, lines)
    notes += csv_text.notes_on(path)
    if foreign:
        notes += (
            f"labels are the names in the column {header[place or 0]!r}, separated by "
            f"{separator!r} (--separator changes that)",
        )
    if left_out:
        notes += (f"left out: the columns {', '.join(left_out)}",)
    lists = {name: cells.lists() for name, cells in names.items()}
    classes, labels, truth, named = assemble(codes, lists, lines)
    if not classes:
        raise InputError(f"{path}: no row names a class")
    split_array = None if split_at is None else np.array(kinds)[np.frombuffer(splits, np.uint8)]
    table = LabelTable(
        ids,
        classes,
        labels,
        truth,
        split_array,
        root,
        notes=notes,
        groups=group_array,
        named=named,
        texts=None if text_at is None else tuple(texts),
    )
    return Dataset(csv_text.with_sidecar(table, path), name=path.stem)


def _check_header(
    header: list[str],
    items_at: tuple[int | None, ...],
    at: dict[str, int | None],
    problems: Problems,
    line: int,
    *,
    lenient: bool,
) -> list[str]:
    """The columns that are left out, which only texts and files of other programs may have."""
    if at["labels"] is None:
        problems.add("has no 'labels' column; the long form needs one", row=line)
    used = {*items_at, *at.values()}
    others = [name for place, name in enumerate(header) if place not in used]
    if lenient:
        return others
    for name in others:
        again = name.lower() in COLUMNS
        why = "occurs twice" if again else f"is not one of {', '.join(COLUMNS)}"
        problems.add(f"column {name!r} {why}", row=line)
    return []


def _class_list(path: Path, options: ReadOptions) -> tuple[str, ...] | None:
    if options.classes is not None:
        return options.classes
    for beside in (csv_text.class_list_path(path), path.with_name("classes.txt")):
        if beside.is_file():
            return csv_text.read_class_list(beside)
    return None


def write(data: Dataset, path: Path) -> None:
    """Writes the table in long form, with a class list beside it if one is needed."""
    table = data.table
    csv_text.check_writable(iter(table.classes), "class", path, forbidden=csv_text.SEPARATOR)
    if ALL_OTHERS in table.classes:
        raise InputError(f"{path}: class '*' cannot be written in long form; write npz instead")
    columns = columns_of(table)
    cells: dict[str, Iterable[str]] = {"labels": _cells(table.labels, table.classes)}
    if columns.starred:
        cells["negatives"] = (ALL_OTHERS for _ in range(len(table)))
    elif columns.negatives is not None:
        cells["negatives"] = _cells(columns.negatives, table.classes)
    if columns.truth is not None:
        cells["truth"] = _cells(columns.truth, table.classes)
    if table.named is not None:
        cells["named"] = _cells(table.named, table.classes)
    if table.split is not None:
        cells["split"] = _texts(table.split)
    if table.groups is not None:
        csv_text.check_writable(_texts(np.unique(table.groups)), "group", path)
        cells["group"] = _texts(table.groups)
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        items = csv_text.item_cells(table, path)
        writer.writerow([*items, *cells])
        writer.writerows(zip(*items.values(), *cells.values(), strict=True))
    used = _used(table, columns.negatives, columns.truth)
    if path.with_name("classes.txt").is_file() or used != list(table.classes):
        write_text(csv_text.class_list_path(path), "".join(f"{name}\n" for name in table.classes))
    else:
        csv_text.class_list_path(path).unlink(missing_ok=True)
    csv_text.write_sidecar(table, path)


def _texts(array: npt.NDArray[np.str_]) -> Iterator[str]:
    for start in range(0, len(array), CHUNK):
        yield from array[start : start + CHUNK].tolist()


def _cells(matrix: LabelMatrix, classes: tuple[str, ...]) -> Iterator[str]:
    for start in range(0, len(matrix), CHUNK):
        part = matrix.take(np.arange(start, min(start + CHUNK, len(matrix)))).only_positives()
        names = [classes[index] for index in part.indices.tolist()]
        bounds = part.indptr.tolist()
        for first, last in pairwise(bounds):
            yield csv_text.SEPARATOR.join(names[first:last])


def _used(table: LabelTable, *others: LabelMatrix | None) -> list[str]:
    seen = np.zeros(len(table.classes), dtype=bool)
    for matrix in (table.labels, *others):
        if matrix is not None:
            seen |= matrix.per_class(1) > 0
    return sorted(name for name, hit in zip(table.classes, seen, strict=True) if hit)
