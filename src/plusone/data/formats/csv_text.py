"""Shared by both CSV forms: decoding, line numbers, class lists, and the sidecar file.

Accepted are UTF-8 with or without BOM, and Windows-1252 (Latin-1) where it cannot be UTF-8; cells
between commas, or between semicolons or tabs if the header has them and no comma; any line ending,
quotes around cells with commas, and spaces after commas. Row numbers are line numbers of the file,
as an editor shows them.

The sidecar, `<file>.observation.json`, stores what does not fit into a CSV file: how the labels
were observed, and the folder of the images.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from plusone.data.checks import name_fault
from plusone.data.formats.base import root_from, root_of
from plusone.data.table import ID_COLUMNS, TEXT, TEXT_IDS, LabelTable, Strings, item_columns
from plusone.errors import InputError, Problems
from plusone.io.files import write_json
from plusone.io.readers import read_json

LARGEST_CELL = 2**28
SEPARATOR = "|"  # of class names in a cell of the long form, and in other texts
WINDOWS = "cp1252"
DELIMITERS = (",", ";", "\t")  # of cells
QUOTED = re.compile('"[^"]*"')
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@contextmanager
def _large_cells() -> Iterator[None]:
    before = csv.field_size_limit(LARGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yields (line, cells) of the header and then of every row with as many cells.

    Blank lines are skipped. Rows with another number of cells, broken quotes and bytes that cannot
    be read are reported as problems.
    """
    with path.open("rb") as raw:
        if raw.read(2) in UTF16:
            raise InputError(f"{path}: is encoded as UTF-16; save it as UTF-8")
    encoding = encoding_of(path)
    with path.open(encoding=encoding, errors="replace") as text:
        head = QUOTED.sub("", text.readline(LARGEST_CELL))
    mark = next((mark for mark in DELIMITERS if mark in head), DELIMITERS[0])
    with _large_cells(), path.open(encoding=encoding, newline="") as text:
        reader = csv.reader(text, strict=True, skipinitialspace=True, delimiter=mark)
        width = 0
        line = 1
        try:
            for row in reader:
                if width and len(row) == width:
                    yield line, row
                elif row and not width:
                    width = len(row)
                    yield line, row
                elif row and (len(row) > 1 or row[0].strip()):
                    problems.add(
                        f"has {len(row)} columns, the header has {width} "
                        "(a cell with a comma needs quotes)",
                        row=line,
                    )
                line = reader.line_num + 1
        except csv.Error as error:
            problems.add(f"cannot be read as CSV: {error}", row=line)
        except UnicodeDecodeError:
            _add_broken_lines(path, problems)


def encoding_of(path: Path) -> str:
    """UTF-8; or Windows-1252, if the file has bytes that are not UTF-8 and no letter that is."""
    with path.open("rb") as raw:
        others = [line for line in raw if not line.isascii()]
    whole = b"".join(others)
    try:
        whole.decode("utf-8")
    except UnicodeDecodeError:
        with suppress(UnicodeDecodeError):
            if whole.decode("utf-8", "ignore").isascii():
                whole.decode(WINDOWS)
                return WINDOWS
    return "utf-8-sig"


def notes_on(path: Path) -> tuple[str, ...]:
    """What is to be said about how the text of a file was read."""
    if encoding_of(path) != WINDOWS:
        return ()
    return ("it is not UTF-8 and was read as Windows-1252 (Latin-1): look at names with accents",)


def _add_broken_lines(path: Path, problems: Problems) -> None:
    with path.open("rb") as raw:
        for line, content in enumerate(raw, 1):
            try:
                content.decode("utf-8")
            except UnicodeDecodeError as error:
                bad = content[error.start : error.start + 1].hex()
                near = content[max(0, error.start - 12) : error.start].decode("utf-8", "replace")
                problems.add(
                    f"byte 0x{bad} after {near!r} is not UTF-8; save the file as UTF-8", row=line
                )


def header_of(path: Path) -> list[str]:
    """The stripped column names of a CSV file; empty if it has none."""
    problems = Problems(path)
    for _, row in records(path, problems):
        return [cell.strip() for cell in row]
    problems.raise_if_any()
    return []


def open_table(
    path: Path, problems: Problems
) -> tuple[int, list[str], Iterator[tuple[int, list[str]]]]:
    """The line and the column names of a CSV file's header, and its other records."""
    rows = records(path, problems)
    line, header = next(rows, (1, []))
    if not header:
        problems.raise_if_any()
        raise InputError(f"{path}: is empty")
    return line, [cell.strip() for cell in header], rows


def column(header: list[str], *names: str) -> int | None:
    """Position of the first of these names in the header, ignoring case; None if there is none."""
    lowered = [cell.lower() for cell in header]
    return next((lowered.index(name) for name in names if name in lowered), None)


def id_column(header: list[str], path: Path) -> int:
    """Position of the id column; `InputError` if there is none."""
    position = column(header, *ID_COLUMNS)
    if position is None:
        shown = ", ".join(header[:5]) + (", ..." if len(header) > 5 else "")
        hint = "; cells are separated by commas, semicolons or tabs" if len(header) == 1 else ""
        raise InputError(
            f"{path}, row 1: no id column in the header ({shown}); "
            f"name it one of {', '.join(ID_COLUMNS)}, or the column of texts {TEXT}{hint}"
        )
    return position


def text_columns(header: list[str], path: Path) -> tuple[int | None, int | None]:
    """Positions of the ids and of the texts; None for ids that are numbers, and without texts."""
    id_name, text_name = item_columns(header)
    if text_name is None:
        return id_column(header, path), None
    return None if id_name is None else header.index(id_name), header.index(text_name)


def as_text(value: str) -> str:
    r"""A text without spaces around it, and with line breaks as they are here.

    >>> as_text(" one \r\n two")
    'one \n two'
    """
    return value.strip().replace("\r\n", "\n").replace("\r", "\n")


def split_names(text: str) -> list[str]:
    """The class names in a text.

    >>> split_names("cat | dog|")
    ['cat', 'dog']
    """
    return [name.strip() for name in text.split(SEPARATOR) if name.strip()]


def class_list_path(path: Path) -> Path:
    """The class list that belongs to one long CSV file."""
    return path.with_name(f"{path.name}.classes.txt")


def read_class_list(path: Path) -> tuple[str, ...]:
    """Class names from a text file, one per line; blank or repeated names are errors."""
    problems = Problems(path)
    names: dict[str, int] = {}
    try:
        lines = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        _add_broken_lines(path, problems)
        lines = []
    if lines and not lines[-1]:
        lines.pop()
    for line, text in enumerate(lines, 1):
        name = text.strip()
        if fault := name_fault(name):
            problems.add(f"class name {name!r} {fault}", row=line)
        elif name in names:
            problems.add(f"class {name!r} occurs twice (first in row {names[name]})", row=line)
        names.setdefault(name, line)
    if not names and not problems:
        problems.add("has no class name in it")
    problems.raise_if_any()
    return tuple(names)


def check_writable(names: Iterator[str], what: str, path: Path, forbidden: str = "") -> None:
    """Raises `InputError` for the first name that would not survive a round trip through CSV."""
    for name in names:
        fault = name_fault(name)
        if fault is None and name != name.strip():
            fault = "begins or ends with a space"
        if fault is None:
            fault = next((f"contains {mark!r}" for mark in forbidden if mark in name), None)
        if fault:
            raise InputError(
                f"{path}: {what} {name!r} {fault} and cannot be written as CSV; write npz instead"
            )


def item_cells(table: LabelTable, path: Path) -> dict[str, Iterable[str]]:
    """The columns that say which items the rows are, by name."""
    check_writable(iter(table.ids.tolist()), "id", path)
    if table.texts is None:
        return {"image": table.ids}
    return {TEXT_IDS[0]: table.ids, TEXT: table.texts}


def sidecar_path(path: Path) -> Path:
    """The sidecar file of a label file."""
    return path.with_name(f"{path.name}.observation.json")


def write_sidecar(table: LabelTable, path: Path) -> None:
    """Writes the sidecar of `table` beside `path`, or removes an old one if none is needed."""
    content: dict[str, Any] = {}
    if table.observation:
        content = {
            "observation": dict(table.observation),
            "digest": table.labels.digest(),
            "default": table.labels.default,
        }
    if (root := root_from(table, path)) not in (None, "."):
        content["images"] = root
    if content:
        write_json(sidecar_path(path), content)
    else:
        sidecar_path(path).unlink(missing_ok=True)


def sidecar_root(ids: Strings, path: Path) -> Path:
    """The image folder of a CSV file: the one its sidecar names, or the folder of the file."""
    try:
        named = dict(read_json(sidecar_path(path))).get("images")
    except (OSError, ValueError, TypeError):
        named = None  # `with_sidecar` reports it
    return root_of(ids, path, named if isinstance(named, str) else None)


def with_sidecar(table: LabelTable, path: Path) -> LabelTable:
    """The table with the observation of its sidecar, if there is one that fits these labels."""
    beside = sidecar_path(path)
    if not beside.is_file():
        return table
    try:
        content = dict(read_json(beside))
        if content.keys() == {"images"}:
            return table
        observation, digest = dict(content["observation"]), str(content["digest"])
        default = int(content["default"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return _ignored(table, beside, "it cannot be read")
    if default not in (0, -1):
        return _ignored(table, beside, f"its default is {default}")
    labels = table.labels.with_default(default)
    if labels.digest() != digest:
        return _ignored(table, beside, "it belongs to other labels")
    return replace(table, labels=labels, observation=observation)


def _ignored(table: LabelTable, beside: Path, why: str) -> LabelTable:
    return replace(table, notes=(*table.notes, f"{beside.name} was ignored: {why}"))
