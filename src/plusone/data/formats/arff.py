"""ARFF files: attributes, and rows that are dense (`1,0.5,a`) or sparse (`{0 1, 2 a}`)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.bounded import UNPACKED_RATIO
from plusone.errors import InputError, Problems

LARGEST = 2**31  # bytes of all values; sparse text data is honestly this wide
NUMERIC = ("numeric", "real", "integer")
ATTRIBUTE = re.compile(
    r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+)\s+(.+)""", re.IGNORECASE
)
QUOTED = re.compile(r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*(?=,|$)""")


@dataclass(frozen=True)
class Attribute:
    """One column: its name, and its categories (empty for a number)."""

    name: str
    categories: tuple[str, ...] = ()

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each category stands."""
        return {word: at for at, word in reversed(list(enumerate(self.categories)))}


@dataclass(frozen=True)
class Arff:
    """A file: attributes, values float32 `[N, A]` (a category as its number), line of each row."""

    path: Path
    attributes: tuple[Attribute, ...]
    values: npt.NDArray[np.float32]
    lines: tuple[int, ...]


def unquote(text: str) -> str:
    r"""The text without its quotes and escapes.

    >>> unquote(r"'a \'b'")
    "a 'b"
    """
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def split_items(text: str) -> list[str]:
    """The cells of a line, quotes kept together.

    >>> split_items("1, 'a, b',2")
    ['1', 'a, b', '2']
    """
    if "'" not in text and '"' not in text:
        return [cell.strip() for cell in text.split(",")]
    cells, at = [], 0
    while True:
        found = QUOTED.match(text, at)
        comma = text.find(",", at if found is None else found.end())
        end = len(text) if comma < 0 else comma
        cells.append(unquote(text[at:end].strip()))
        if comma < 0:
            return cells
        at = comma + 1


def read_arff(path: Path, problems: Problems) -> Arff:
    """Reads a file; everything wrong with it is recorded, naming row and value."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}, row {line}: byte 0x{error.object[error.start]:02x} is not UTF-8"
        ) from None
    attributes: list[Attribute] = []
    values = np.zeros((0, 0), dtype=np.float32)
    lines: list[int] = []
    in_data = False
    for line, raw in enumerate(text.split("\n"), 1):
        row = raw.strip()
        if not row or row[0] == "%":
            continue
        try:
            if in_data:
                values[len(lines)] = _row(row, attributes)
                lines.append(line)
            elif row.lower().startswith("@attribute"):
                attributes.append(_attribute(row))
            elif row.lower().startswith("@data"):
                in_data = True
                values = _room(path, text.count("\n") + 1 - line, len(attributes), len(text))
            elif not row.lower().startswith("@relation"):
                raise ValueError(f"{row[:40]!r} is not @relation, @attribute or @data")
        except InputError:
            raise
        except ValueError as error:
            problems.add(str(error), row=line, source=path)
    names = [attribute.name for attribute in attributes]
    if not in_data:
        problems.add("has no @data line", source=path)
    elif not lines and not problems:
        problems.add("has no rows", source=path)
    for name in sorted(name for name, count in Counter(names).items() if count > 1):
        problems.add(f"attribute {name!r} occurs twice", source=path)
    return Arff(path, tuple(attributes), values[: len(lines)], tuple(lines))


def _room(path: Path, rows: int, width: int, size: int) -> npt.NDArray[np.float32]:
    """Zeros for so many rows; sparse ones that would become far larger than the file are refused.

    Args:
        path: The file, to be named.
        rows: How many there are at most.
        width: How many attributes.
        size: Of the file.
    """
    needed = 4 * rows * width
    if needed > max(LARGEST, UNPACKED_RATIO * size):
        raise InputError(
            f"{path}: {rows:,} rows of {width:,} attributes need {needed:,} bytes, more than "
            f"{UNPACKED_RATIO} times the file; keep fewer attributes or rows"
        )
    return np.zeros((rows, width), dtype=np.float32)


def _attribute(row: str) -> Attribute:
    found = ATTRIBUTE.fullmatch(row)
    if found is None:
        raise ValueError(f"{row[:60]!r} is not an attribute with a name and a type")
    name, kind = unquote(found[1]), found[2].strip()
    if kind.lower() in NUMERIC:
        return Attribute(name)
    if kind[0] == "{" and kind[-1] == "}":
        return Attribute(name, tuple(split_items(kind[1:-1])))
    raise ValueError(f"attribute {name!r} has the type {kind[:40]!r}, not a number or categories")


def _row(row: str, attributes: list[Attribute]) -> npt.NDArray[np.float32]:
    values = np.zeros(len(attributes), dtype=np.float32)
    if row[0] == "{":
        if row[-1] != "}":
            raise ValueError("a sparse row has no closing brace")
        for entry in split_items(row[1:-1].strip()) if row[1:-1].strip() else ():
            place, _, cell = entry.strip().partition(" ")
            if not place.isascii() or not place.isdigit() or int(place) >= len(attributes):
                raise ValueError(f"{entry!r} does not name an attribute by its number")
            values[int(place)] = _value(unquote(cell.strip()), attributes[int(place)])
        return values
    cells = split_items(row)
    if len(cells) != len(attributes):
        raise ValueError(f"has {len(cells)} columns, the header has {len(attributes)} attributes")
    values[:] = [_value(cell, kind) for cell, kind in zip(cells, attributes, strict=True)]
    return values


def _value(cell: str, attribute: Attribute) -> float:
    if attribute.categories:
        if cell not in attribute.places:
            known = ", ".join(attribute.categories[:5])
            raise ValueError(f"{cell!r} for attribute {attribute.name!r} is not one of {known}")
        return attribute.places[cell]
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not abs(value) < 3e38:  # the range of float32; also refuses NaN
        raise ValueError(f"{cell!r} for attribute {attribute.name!r} is not a number")
    return value
