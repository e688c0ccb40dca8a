"""JSON lines in long form: one object a line, with the keys that the columns of csv-long have.

`labels`, `negatives`, `truth` and `named` are lists of names, or texts with `|` between the names;
`negatives` may be `"*"`. Blank lines are skipped, and other keys are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data.checks import check_groups, check_ids, check_splits, id_array
from plusone.data.dataset import Dataset
from plusone.data.formats._longform import ALL_OTHERS, ClassCodes, Lists, assemble
from plusone.data.formats.base import ReadOptions, images_root
from plusone.data.formats.csv_text import as_text, split_names
from plusone.data.table import OTHER_COLUMNS, LabelTable, item_columns
from plusone.errors import InputError, Problems
from plusone.io.readers import parse_json

SUFFIXES = (".jsonl", ".ndjson")
LISTS = ("labels", *OTHER_COLUMNS[:3])
BOM = b"\xef\xbb\xbf"


def detects(path: Path) -> bool:
    """A file that ends in `.jsonl` or `.ndjson`."""
    return path.is_file() and path.suffix.lower() in SUFFIXES


def records(path: Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line, object), keys in lower case; other lines are reported as problems."""
    with path.open("rb") as file:
        for line, content in enumerate(file, 1):
            if not (content := content.removeprefix(BOM).strip()):
                continue
            try:
                value = parse_json(content)
            except ValueError as error:
                problems.add(f"is not JSON ({error})", row=line)
                continue
            if isinstance(value, dict):
                yield line, {name.lower(): entry for name, entry in value.items()}
            else:
                problems.add(f"is {type(value).__name__} of JSON, not an object {{...}}", row=line)


def text_of(record: dict[str, Any], name: str, problems: Problems, line: int) -> str:
    """A value that must be text or a number; anything else is a problem."""
    value = record.get(name)
    if isinstance(value, str | int | float):
        return as_text(str(value))
    problems.add(f"{name!r} is {'missing' if value is None else 'not text'}", row=line)
    return ""


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads the file line by line; problems name the line."""
    problems = Problems(path)
    codes = ClassCodes(options.classes, problems)
    lines: list[int] = []
    columns: dict[str, list[str]] = {"id": [], "text": [], "split": [], "group": []}
    lists: dict[str, _Names] = {}
    names: tuple[str | None, str | None] = (None, None)
    for line, record in records(path, problems):
        if not lines:
            names = item_columns([*record])
            if names == (None, None):
                raise InputError(f"{path}, row {line}: has no 'id', 'image' or 'text'")
            lists = {name: _Names() for name in LISTS if name in record}
            optional = [name for name in ("split", "group") if name in record]
        lines.append(line)
        for key, name in zip(("id", "text"), names, strict=True):
            if name is not None:
                columns[key].append(text_of(record, name, problems, line))
        for name in optional:
            columns[name].append(text_of(record, name, problems, line))
        for name, column in lists.items():
            column.add(record.get(name), codes, line)
    if "labels" not in lists and not problems:
        raise InputError(f"{path}: its first object has no 'labels', the names of its classes")
    problems.raise_if_any()
    texts = None if names[1] is None else tuple(columns["text"])
    numbers = [str(number) for number in range(1, len(lines) + 1)]
    ids = id_array(numbers if names[0] is None else columns["id"], path)
    check_ids(ids, problems, lines)
    split = groups = None
    if columns["split"]:
        split = check_splits(np.array(columns["split"]), problems, lines)
    if columns["group"]:
        groups = id_array(columns["group"], path, "groups")
        check_groups(groups, problems, lines)
    usual = None if texts is not None else path.parent
    root, notes = images_root(ids, usual, options, problems, lines)
    each = {name: column.lists() for name, column in lists.items()}
    classes, labels, truth, named = assemble(codes, each, lines)
    if not classes:
        raise InputError(f"{path}: no line names a class")
    table = LabelTable(
        ids, classes, labels, truth, split, root, notes=notes, groups=groups, named=named,
        texts=texts,
    )  # fmt: skip
    return Dataset(table, name=path.stem)


class _Names:
    """The names under one key, as codes."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.counts: list[int] = []
        self.starred: list[int] = []

    def add(self, value: Any, codes: ClassCodes, line: int) -> None:
        if value == ALL_OTHERS:
            self.starred.append(len(self.counts))
            value = None
        names = split_names(value) if isinstance(value, str) else value or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            codes.problems.add("labels must be a list of names", row=line)
            names = []
        known = [codes.code(name, line) for name in names]
        self.codes += [code for code in known if code is not None]
        self.counts.append(len([code for code in known if code is not None]))

    def lists(self) -> Lists:
        codes, counts = np.array(self.codes, np.int32), np.array(self.counts, np.int32)
        return Lists(codes, counts, np.array(self.starred, np.int64))
