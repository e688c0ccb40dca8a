"""A folder of suggestions: what `plusone suggest` writes and `plusone review` opens.

| file | content |
| --- | --- |
| `suggestions.csv` | `image,label,probability,score`, one line per label; and `group`, if any |
| `seen.npz` | items, classes and seen labels |
| `classes.csv` | the parents of the classes, if they have any |
| `wrong.csv` | seen labels that are probably wrong, if asked for (`suggestions.wrong_csv`) |
| `about.json` | how they were made: run, data, folds, calibration, and the folder of the images |
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.classes_file import CLASSES, read_hierarchy, write_parents
from plusone.data.formats import read as read_table
from plusone.data.formats import write as write_table
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems
from plusone.io.files import replacing, write_json
from plusone.io.readers import LARGE_FILE, read_json, read_text
from plusone.version import __version__, refuse_newer

COLUMNS = ("image", "label", "probability", "score")
GROUP = "group"  # a further column, if items have groups
KIND = "suggestions"
FORMAT = 1
SHOWN = 10  # in a notebook


@dataclass(frozen=True, repr=False)
class Suggestions:
    """Suggested labels, one entry each, item by item, the most probable of an item first.

    Args:
        table: The items and their seen labels; every suggestion is unobserved in it.
        row: Item of each suggestion, int64 `[n]`, ascending.
        label: Its class, int32 `[n]`.
        probability: Calibrated probability that the item has the label, float32 `[n]`.
        score: Out-of-sample score before calibration, float32 `[n]`.
        about: How they were made: the content of `about.json`.
    """

    table: LabelTable
    row: npt.NDArray[np.int64]
    label: npt.NDArray[np.int32]
    probability: npt.NDArray[np.float32]
    score: npt.NDArray[np.float32]
    about: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        items, classes = len(np.unique(self.row)), len(self.table.classes)
        method = f", by {self.about['method']}" if "method" in self.about else ""
        return f"Suggestions({len(self)} labels of {items} items, {classes} classes{method})"

    def _repr_html_(self) -> str:
        """The first suggestions as a table, for notebooks."""
        columns = (self.row, self.label, self.probability)
        rows = [
            f"<tr><td>{escape(str(self.table.ids[row]))}</td>"
            f"<td>{escape(self.table.classes[label])}</td><td>{probability:.3f}</td></tr>"
            for row, label, probability in zip(*(part[:SHOWN] for part in columns), strict=True)
        ]
        head = "<tr><th>item</th><th>label</th><th>probability</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{''.join(rows)}</table>"


def write_suggestions(suggestions: Suggestions, folder: Path) -> None:
    """Writes the folder; `about.json` comes last, so a folder that has it is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "about.json").unlink(missing_ok=True)
    table = suggestions.table
    write_table(replace(table, root=None, truth=None), folder / "seen.npz")
    (folder / CLASSES).unlink(missing_ok=True)
    if table.hierarchy is not None:
        write_parents(folder / CLASSES, table.classes, table.hierarchy)
    _write_csv(suggestions, folder / "suggestions.csv")
    root = None if table.root is None else str(table.root.resolve())
    header = {"kind": KIND, "format": FORMAT, "version": __version__, "root": root}
    write_json(folder / "about.json", header | dict(suggestions.about))


def _write_csv(suggestions: Suggestions, path: Path) -> None:
    """One line per suggestion."""
    ids, classes = suggestions.table.ids, suggestions.table.classes
    groups = suggestions.table.groups
    columns = (suggestions.row, suggestions.label, suggestions.probability, suggestions.score)
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS if groups is None else (*COLUMNS, GROUP))
        for row, label, probability, score in zip(*columns, strict=True):
            line = [ids[row], classes[label], f"{probability:.6f}", f"{score:.6f}"]
            writer.writerow(line if groups is None else [*line, groups[row]])


def read_suggestions(folder: Path) -> Suggestions:
    """Reads the folder; problems are reported with their line numbers."""
    about = _read_about(folder)
    table = read_table(folder / "seen.npz").table
    root, hierarchy = about.get("root"), read_hierarchy(folder, table.classes)
    table = replace(table, root=None if root is None else Path(root), hierarchy=hierarchy)
    return _parse(folder / "suggestions.csv", table, about)


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / "about.json"
    if not path.is_file():
        raise InputError(
            f"{folder}: not a folder of suggestions (it has no about.json); "
            "plusone suggest RUN makes one"
        )
    try:
        about = read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    if not isinstance(about, dict) or about.get("kind") != KIND:
        raise InputError(f"{path}: does not describe suggestions")
    refuse_newer(str(path), about.get("format"), FORMAT, about.get("version"))
    if not isinstance(about.get("root"), str | None):
        raise InputError(f"{path}: root must be a folder or null")
    return about


def _parse(path: Path, table: LabelTable, about: dict[str, Any]) -> Suggestions:
    rows = {name: row for row, name in enumerate(table.ids.tolist())}
    labels = {name: label for label, name in enumerate(table.classes)}
    problems = Problems(str(path))
    entries: list[tuple[int, int, float, float]] = []
    try:
        text = read_text(path, largest=LARGE_FILE)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    lines = csv.reader(io.StringIO(text, newline=""))
    header = tuple(next(lines, ()))
    if header not in (COLUMNS, (*COLUMNS, GROUP)):
        raise InputError(
            f"{path}: the first line must be {','.join(COLUMNS)}, or have {GROUP} after these"
        )
    for line in lines:
        number = lines.line_num
        if len(line) != len(header):
            problems.add(
                f"{','.join(line)!r} has {len(line)} columns, the header has {len(header)} (a "
                "cell with a comma needs quotes)",
                row=number,
            )
            continue
        try:
            image, label, probability, score = line[: len(COLUMNS)]
            entry = (rows[image], labels[label], float(probability), float(score))
        except (ValueError, KeyError):
            problems.add(f"{','.join(line)!r} is not an item, a class and two numbers", row=number)
            continue
        if not 0 <= entry[2] <= 1:
            problems.add(f"probability {probability} is not between 0 and 1", row=number)
        entries.append(entry)
    problems.raise_if_any()
    columns = list(zip(*entries, strict=True)) if entries else [(), (), (), ()]
    row = np.array(columns[0], dtype=np.int64)
    order = np.lexsort((-np.array(columns[2], dtype=np.float64), row))
    return Suggestions(
        table,
        row[order],
        np.array(columns[1], dtype=np.int32)[order],
        np.array(columns[2], dtype=np.float32)[order],
        np.array(columns[3], dtype=np.float32)[order],
        about,
    )
