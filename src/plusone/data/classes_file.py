"""`classes.csv`: a class and its parent in each row; and tables whose labels follow it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from plusone.data.checks import SHOWN, name_fault, short
from plusone.data.formats import csv_text
from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems
from plusone.io.files import replacing

__all__ = [
    "CLASSES",
    "beside",
    "closed",
    "read_parents",
    "with_parents",
    "with_parents_of",
    "write_parents",
]

CLASSES = "classes.csv"
COLUMNS = ("class", "parent")


def beside(data: Path) -> Path | None:
    """The `classes.csv` in a data folder, or beside a label file; None if there is none.

    A file of this name with other columns is something else.
    """
    path = (data if data.is_dir() else data.parent) / CLASSES
    if not path.is_file():
        return None
    try:
        header = csv_text.header_of(path)
    except (InputError, OSError):
        return None
    return None if None in (csv_text.column(header, name) for name in COLUMNS) else path


def read_parents(path: Path) -> dict[str, str]:
    """The parent of each class of a file, by name; "" for a class without one.

    Raises:
        InputError: A class has two rows, no name or a parent that is not in the file, or lies
            below itself; the message names the rows.
    """
    problems = Problems(path)
    try:
        line, header, rows = csv_text.open_table(path, problems)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    at = [csv_text.column(header, name) for name in COLUMNS]
    if None in at:
        raise InputError(f"{path}, row {line}: needs the columns {','.join(COLUMNS)}")
    parents, lines = dict[str, str](), dict[str, int]()
    for line, row in rows:
        name, parent = (row[place].strip() for place in at if place is not None)
        if fault := name_fault(name):
            problems.add(f"class {short(name)} {fault}", row=line)
        elif name not in parents:
            parents[name], lines[name] = parent, line
        elif parent == parents[name]:
            problems.add(f"class {name!r} occurs twice (first in row {lines[name]})", row=line)
        else:
            problems.add(
                f"class {name!r} has a second parent {parent!r} (row {lines[name]} says "
                f"{parents[name]!r}); a class has one",
                row=line,
            )
    _check(parents, problems, lines)
    problems.raise_if_any()
    return parents


def _check(parents: Mapping[str, str], problems: Problems, lines: Mapping[str, int]) -> None:
    """Reports parents that are no classes, and classes that lie below themselves."""
    for name, parent in parents.items():
        if parent and parent not in parents:
            problems.add(
                f"the parent {parent!r} of {name!r} has no row of its own; add it, with an empty "
                "parent if nothing is above it",
                row=lines.get(name),
            )
    done: set[str] = set()
    for name in parents:
        path: list[str] = []
        while name in parents and name not in done and name not in path:
            path.append(name)
            name = parents[name]
        if name in path:
            cycle = " -> ".join([*path[path.index(name) :], name])
            problems.add(f"a class lies below itself: {cycle}", row=lines.get(name))
        done.update(path)


def write_parents(path: Path, classes: Sequence[str], hierarchy: Hierarchy) -> None:
    """Writes the parent of each class."""
    csv_text.check_writable(iter(classes), "class", path)
    above = ("" if up is None else classes[up] for up in hierarchy.parent)
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([COLUMNS, *zip(classes, above, strict=True)])


def with_parents(
    table: LabelTable, parents: Mapping[str, str], source: Path | str = "parents"
) -> LabelTable:
    """The table with a hierarchy of its classes, and with labels that follow it.

    Classes above those of the table are added to it; other classes that it does not have are left
    out. `truth` is closed too, and `named` has the parents of what was named.

    Args:
        table: The labels.
        parents: The parent of each class, by name; "" or no entry for a class without one.
        source: What has the parents, for messages.

    Raises:
        InputError: A parent is unknown, a class lies below itself, or an item has a positive class
            below a seen negative.
    """
    problems = Problems(source)
    _check(dict.fromkeys(table.classes, "") | dict(parents), problems, {})
    problems.raise_if_any()
    needed, pending = dict.fromkeys(table.classes), [*table.classes]
    while pending:
        parent = parents.get(pending.pop(), "")
        if parent and parent not in needed:
            needed[parent] = None
            pending.append(parent)
    added = [name for name in parents if name in needed and name not in table.classes]
    classes = (*table.classes, *added)
    place = {name: number for number, name in enumerate(classes)}
    hierarchy = Hierarchy(tuple(place.get(parents.get(name, "")) for name in classes))
    if hierarchy.depth < 2:
        return table
    return closed(replace(_widened(table, classes), hierarchy=hierarchy))


def with_parents_of(table: LabelTable, path: Path) -> LabelTable:
    """The table with the hierarchy of a file, and a note on what the file says."""
    parents = read_parents(path)
    found = with_parents(table, parents, path)
    hierarchy, added = found.hierarchy, len(found.classes) - len(table.classes)
    if hierarchy is None:
        note = f"{path.name} gives none of the classes a parent"
    else:
        note = f"{path.name} puts the classes on {hierarchy.depth} levels; {added} of them are new"
    if other := [name for name in table.classes if name not in parents]:
        more = f" and {len(other) - SHOWN} more" if len(other) > SHOWN else ""
        note += f"; it does not have {', '.join(other[:SHOWN])}{more}"
    return replace(found, notes=(*found.notes, note))


def closed(table: LabelTable) -> LabelTable:
    """The table with labels that follow its hierarchy, if it has one."""
    hierarchy = table.hierarchy
    if hierarchy is None:
        return table
    if table.labels.default == 0 and (found := hierarchy.contradiction(table.labels)):
        row, below, above = found
        raise InputError(
            f"item {str(table.ids[row])!r} has the class {table.classes[below]!r}, but not "
            f"{table.classes[above]!r}, which is above it; correct one of the two labels"
        )
    labels = hierarchy.closed(table.labels)
    truth = table.truth
    if truth is not None:
        truth = labels if truth is table.labels else hierarchy.closed(truth)
    named = None if table.named is None else hierarchy.closed(table.named)
    return replace(table, labels=labels, truth=truth, named=named)


def _widened(table: LabelTable, classes: tuple[str, ...]) -> LabelTable:
    """The table with further classes, of which nothing is seen."""

    def wide(labels: LabelMatrix) -> LabelMatrix:
        entries = labels.entries
        parts = (entries.data, entries.indices, entries.indptr)
        return LabelMatrix(csr_array(parts, shape=(len(labels), len(classes))), labels.default)

    labels, hints = wide(table.labels), table.hints
    truth = None
    if table.truth is not None:
        truth = labels if table.truth is table.labels else wide(table.truth)
    if hints is not None:
        more = np.full((len(table), len(classes) - hints.shape[1]), np.nan, dtype=np.float32)
        hints = np.concatenate([hints, more], axis=1)
    named = None if table.named is None else wide(table.named)
    return replace(table, classes=classes, labels=labels, truth=truth, hints=hints, named=named)


def parents_file(folder: Path) -> Path | None:
    """The parents of the classes of a run, which the user's file may have changed since."""
    path = folder / CLASSES
    return path if path.is_file() else None


def read_hierarchy(folder: Path, classes: Sequence[str]) -> Hierarchy | None:
    """The same as a hierarchy; None if the run has none."""
    if (path := parents_file(folder)) is None:
        return None
    parents, place = read_parents(path), {name: number for number, name in enumerate(classes)}
    if parents.keys() != place.keys():
        raise InputError(f"{path}: has other classes than data.json beside it; train again")
    return Hierarchy(tuple(place.get(parents[name]) for name in classes))
