"""Description of a public data set, and the comparison of a table with the published counts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from plusone.data.checks import missing_images, name_fault
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems

COLE = "Cole et al. 2021, section 6.1"
CHEN = "Chen et al. 2024, Table 5"


@dataclass(frozen=True)
class Expected:
    """Published counts.

    Args:
        train: Number of training items, including those held out for validation.
        positives: Mean number of positives of a training item; None if no paper gives it.
        per_item: Most, fewest and mean positives of an item (Cole et al. 2021, Table A3).
        intervals: Intervals of k from so many labelled items (Cole et al. 2021, Table A2).
        within: Tolerance of `positives`, for rounding or a random split.
    """

    train: int
    test: int
    classes: int
    positives: float | None
    per_item: tuple[int, int, float]
    intervals: Mapping[int, tuple[float, float]]
    within: float = 0.005
    source: str = f"{COLE}; {CHEN}"


@dataclass(frozen=True)
class PublicData:
    """One row of the table of public data sets.

    Args:
        read: Reads the downloaded files below a folder. The table's `root` is the folder of the
            images, even if they are missing.
        expected: Counts of the papers' split.
        draw: Draws the papers' random split from (table, seed), if they have one.
        official: Counts of the official split, if the papers use another one.
        missing: Default for items whose image file is missing.
    """

    title: str
    page: str
    read: Callable[[Path], LabelTable]
    expected: Expected
    draw: Callable[[LabelTable, int], LabelTable] | None = None
    official: Expected | None = None
    missing: str = "refuse"


@dataclass(frozen=True)
class Count:
    """One count of a table, compared with the published one."""

    what: str
    found: float
    expected: float | None
    fits: bool

    @property
    def sentence(self) -> str:
        """Both counts, for a message."""
        return f"{self.what}: {self.found:,} found, {self.expected:,} published"


def compare(table: LabelTable, expected: Expected) -> tuple[Count, ...]:
    """Compares the counts of a table with the published ones."""
    train = table.take(table.rows_of("train"))
    mean = float(train.labels.per_item(1).mean()) if len(train) else 0.0
    totals = (
        ("train items", len(train), expected.train),
        ("test items", len(table.rows_of("test")), expected.test),
        ("classes", len(table.classes), expected.classes),
    )
    near = expected.positives is None or abs(mean - expected.positives) <= expected.within
    return (
        *(Count(what, count, published, count == published) for what, count, published in totals),
        Count("positives per train item", round(mean, 3), expected.positives, near),
    )


def first_of(places: Sequence[Path], *, title: str, page: str) -> Path:
    """The first of these paths that exists; `InputError` if none does."""
    for place in places:
        if os.path.exists(place):  # false, not an error, for names that are too long
            return place
    also = "".join(f" or {place}" for place in places[1:])
    raise InputError(f"{places[0]}{also}: is missing; {title} is obtained from {page}")


WAYS = ("refuse", "drop", "keep")


def settle_images(table: LabelTable, way: str, *, title: str, page: str) -> LabelTable:
    """Refuses missing images, drops their items or keeps them, and notes how many there are."""
    root = table.root
    if root is None or not len(table):
        return table
    missing = np.asarray(missing_images(table.ids, root), dtype=np.int64)
    if not len(missing):
        return table
    everything = len(missing) == len(table)
    if way == "keep":
        note = f"{len(missing):,} of {len(table):,} items have no image file below {root}; "
        note += "all were kept, for training on features"
        return replace(table, root=None, notes=(*table.notes, note))
    first = root / str(table.ids[missing[0]])
    if everything:
        raise InputError(
            f"{first if root.is_dir() else root}: is missing, and so is every other image; {title} "
            f"is obtained from {page} (--missing keep writes the labels alone)"
        )
    if way == "drop":
        note = f"{len(missing):,} of {len(table):,} items were dropped: no image below {root}"
        return replace(
            table.take(np.setdiff1d(np.arange(len(table)), missing)), notes=(*table.notes, note)
        )
    raise InputError(
        f"{first}: is missing, one of {len(missing):,} missing images of {len(table):,}; "
        f"{title} is obtained from {page} (--missing drop leaves these items out, "
        "--missing keep keeps them for training on features)"
    )


NUMBER = re.compile("[0-9]{1,18}")


def text_lines(path: Path, problems: Problems) -> list[tuple[int, str]]:
    """Row number (from 1) and stripped text of every line that is not blank."""
    lines = []
    for row, raw in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        try:
            text = raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            problems.add(f"{raw[:80]!r} is not UTF-8", row=row, source=path)
            continue
        if text:
            lines.append((row, text))
    return lines


def numbered(path: Path, problems: Problems) -> dict[int, tuple[int, str]]:
    """Lines `number text` as number -> (row, text), in the order of the file."""
    entries: dict[int, tuple[int, str]] = {}
    for row, line in text_lines(path, problems):
        number, _, text = line.partition(" ")
        if not NUMBER.fullmatch(number) or not text.strip():
            problems.add(f"{line[:80]!r} is not a number and a value", row=row, source=path)
        elif int(number) in entries:
            problems.add(f"number {number} occurs twice", row=row, source=path)
        else:
            entries[int(number)] = (row, text.strip())
    return entries


def check_classes(path: Path, names: list[tuple[int, str]], problems: Problems) -> None:
    """Reports class names (given with their rows) that are unprintable or occur twice."""
    seen: set[str] = set()
    for row, name in names:
        if fault := name_fault(name):
            problems.add(f"class name {name!r} {fault}", row=row, source=path)
        elif name in seen:
            problems.add(f"class {name!r} occurs twice", row=row, source=path)
        seen.add(name)
    if not names and not problems:
        problems.add("names no class", source=path)
