"""MULAN: `NAME.xml` names the labels, `NAME-train.arff` and `NAME-test.arff` hold the rows.

A single `NAME.arff` is accepted too. The other attributes become features. All labels are known.
Classes are in the order of the XML file.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.checks import name_fault
from plusone.data.dataset import Dataset
from plusone.data.formats.base import ReadOptions
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems
from plusone.io.readers import UNPACKED_RATIO, parse_xml

LARGEST = 2**30  # bytes of the values of a file; sparse text data can be this wide
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
        """Position of each category."""
        return {name: at for at, name in reversed(list(enumerate(self.categories)))}


@dataclass(frozen=True)
class Arff:
    """A file: attributes, values float32 `[N, A]` (categories as numbers), line of each row."""

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
    """The cells of a line; a quoted cell may contain commas.

    >>> split_items("1, 'a, b',2")
    ['1', 'a, b', '2']
    """
    if "'" not in text and '"' not in text:
        return [cell.strip() for cell in text.split(",")]
    cells, at = [], 0
    while True:
        quoted = QUOTED.match(text, at)
        comma = text.find(",", at if quoted is None else quoted.end())
        end = len(text) if comma < 0 else comma
        cells.append(unquote(text[at:end].strip()))
        if comma < 0:
            return cells
        at = comma + 1


def read_arff(path: Path, problems: Problems) -> Arff:
    """Reads a file; problems are reported with row and value."""
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
                values = _allocate(path, text.count("\n") + 1 - line, len(attributes), len(text))
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


def _allocate(path: Path, rows: int, width: int, size: int) -> npt.NDArray[np.float32]:
    """An array of zeros for the values; refuses sparse data that is far larger than the file."""
    needed = 4 * rows * width
    if needed > max(LARGEST, UNPACKED_RATIO * size):
        raise InputError(
            f"{path}: {rows:,} rows of {width:,} attributes need {needed:,} bytes, more than "
            f"{UNPACKED_RATIO} times the file; keep fewer attributes or rows"
        )
    return np.zeros((rows, width), dtype=np.float32)


def _attribute(row: str) -> Attribute:
    match = ATTRIBUTE.fullmatch(row)
    if match is None:
        raise ValueError(f"{row[:60]!r} is not an attribute with a name and a type")
    name, kind = unquote(match[1]), match[2].strip()
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
            allowed = ", ".join(attribute.categories[:5])
            raise ValueError(f"{cell!r} for attribute {attribute.name!r} is not one of {allowed}")
        return attribute.places[cell]
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not abs(value) < 3e38:  # the range of float32; also refuses NaN
        raise ValueError(f"{cell!r} for attribute {attribute.name!r} is not a number")
    return value


PART = re.compile(r"[-_](train|test)$", re.IGNORECASE)
ALL = "item"


def detects(path: Path) -> bool:
    """An `.arff` or `.xml` file, or a folder with both kinds."""
    if path.is_file():
        return path.suffix.lower() in (".arff", ".xml")
    return any(path.glob("*.arff")) and any(path.glob("*.xml"))


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads the XML file and its ARFF files; ids are `train-00001`, `test-00001`, ..."""
    xml, parts = _find(path)
    problems = Problems(path)
    labels = read_xml(xml, problems)
    loaded = {kind: read_arff(file, problems) for kind, file in parts.items()}
    names = [attribute.name for attribute in next(iter(loaded.values())).attributes]
    for arff in loaded.values():
        _compare(arff, names, labels, xml, problems)
    problems.raise_if_any()
    place = {name: at for at, name in enumerate(names)}
    columns = [place[label] for label in labels]
    ids: list[str] = []
    splits: list[str] = []
    truths = []
    features = []
    whole = ALL in loaded
    for kind in [*loaded]:
        arff = loaded.pop(kind)  # so that its values are let go
        truths.append(_truth(arff, columns, problems))
        features.append(np.delete(arff.values, columns, axis=1))
        ids.extend(f"{kind}-{row:05d}" for row in range(1, len(arff.values) + 1))
        splits.extend([kind] * len(arff.values))
    problems.raise_if_any()
    table = LabelTable.complete(
        ids,
        labels,
        LabelMatrix.concatenate(truths),
        split=None if whole else np.asarray(splits, dtype="<U5"),
    )
    x = np.concatenate(features) if len(features) > 1 else features[0]
    return Dataset(table, np.ascontiguousarray(x), name=xml.stem)


def _find(path: Path) -> tuple[Path, dict[str, Path]]:
    """The XML file, and the ARFF file of each part ("train", "test" or the whole)."""
    if path.suffix.lower() == ".arff" and path.is_file():
        kind = PART.search(path.stem)
        xml = path.with_name(PART.sub("", path.stem) + ".xml")
        if not xml.is_file():
            raise InputError(f"{path}: the file {xml.name} with the label names is missing")
        return xml, {kind[1].lower() if kind else ALL: path}
    xmls = [path] if path.is_file() else sorted(path.glob("*.xml"))
    if len(xmls) != 1:
        names = ", ".join(xml.name for xml in xmls) or "none"
        raise InputError(f"{path}: needs exactly one XML file with label names (found: {names})")
    xml = xmls[0]
    arffs = {file.stem.lower(): file for file in sorted(xml.parent.glob("*.arff"))}
    for mark in "-_":
        stems = {kind: f"{xml.stem}{mark}{kind}".lower() for kind in ("train", "test")}
        parts = {kind: arffs[stem] for kind, stem in stems.items() if stem in arffs}
        if parts:
            return xml, parts
    if xml.stem.lower() in arffs:
        return xml, {ALL: arffs[xml.stem.lower()]}
    raise InputError(f"{xml}: neither {xml.stem}-train.arff nor {xml.stem}.arff lies beside it")


def read_xml(path: Path, problems: Problems) -> list[str]:
    """Label names of a MULAN XML file, including nested ones; document types are refused."""
    names: dict[str, None] = {}

    def start(tag: str, attributes: dict[str, str], row: int) -> None:
        if tag.rpartition(":")[2] != "label":
            return
        name = attributes.get("name", "")
        if fault := name_fault(name):
            problems.add(f"label name {name!r} {fault}", row=row, source=path)
        elif name in names:
            problems.add(f"label {name!r} occurs twice", row=row, source=path)
        names[name] = None

    parse_xml(path, start)
    if not names:
        problems.add("names no label", source=path)
    return list(names)


def _compare(
    arff: Arff, names: list[str], labels: list[str], xml: Path, problems: Problems
) -> None:
    own = {attribute.name: attribute for attribute in arff.attributes}
    for label in labels:
        if label not in own:
            problems.add(
                f"has no attribute for the label {label!r} of {xml.name}", source=arff.path
            )
        elif own[label].categories and not set(own[label].categories) <= {"0", "1"}:
            shown = ", ".join(own[label].categories[:5])
            problems.add(
                f"label {label!r} of {xml.name} has the values {shown}, not 0 and 1",
                source=arff.path,
            )
    if [attribute.name for attribute in arff.attributes] != names:
        problems.add("has other attributes than the training file", source=arff.path)


def _truth(arff: Arff, columns: list[int], problems: Problems) -> LabelMatrix:
    states = arff.values[:, columns].copy()
    for place, column in enumerate(columns):
        attribute = arff.attributes[column]
        if attribute.categories:
            meaning = np.array([float(word) for word in attribute.categories])
            states[:, place] = meaning[states[:, place].astype(int)]
        for row in np.flatnonzero((states[:, place] != 0) & (states[:, place] != 1)):
            problems.add(
                f"{states[row, place]:g} for label {attribute.name!r} is not 0 or 1",
                row=arff.lines[row],
                source=arff.path,
            )
    if problems:
        states[:] = 0
    return LabelMatrix.from_dense(states.astype(np.int8), default=-1)
