"""What is known of a public data set, and how a table is checked against the papers' counts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
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
    """Counts that the papers give.

    Args:
        train: Training items, those held out for validation included.
        test: Test items.
        classes: Classes.
        positives: Mean positives of a training item; None where no paper gives it.
        within: How far from `positives` still agrees: what rounding (or a random split) explains.
        source: Where the counts are published.
    """

    train: int
    test: int
    classes: int
    positives: float | None
    within: float = 0.005
    source: str = f"{COLE}; {CHEN}"


@dataclass(frozen=True)
class PublicData:
    """One row of the table of public data sets.

    Args:
        title: Its name.
        page: Where it is obtained.
        read: Reads the downloaded files below a folder. The table's `root` is where its images
            belong, whether they are there or not.
        expected: Counts of the papers' split.
        draw: Makes the papers' random split from (table, seed), where they have one.
        official: Counts of the official split, where the papers have another one.
        missing: What to do by default with items whose image file is missing.
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
    """One figure of a table beside the published one.

    Args:
        what: What was counted.
        found: The count in the table.
        expected: The published one; None if there is none.
        fits: Whether they agree.
    """

    what: str
    found: float
    expected: float | None
    fits: bool

    @property
    def sentence(self) -> str:
        """Both figures, for a message."""
        return f"{self.what}: {self.found:,} found, {self.expected:,} published"


def compare(table: LabelTable, expected: Expected) -> tuple[Count, ...]:
    """The counts of a table beside the published ones."""
    train = table.take(table.rows_of("train"))
    mean = float(train.labels.per_item(1).mean()) if len(train) else 0.0
    whole = (
        ("train items", len(train), expected.train),
        ("test items", len(table.rows_of("test")), expected.test),
        ("classes", len(table.classes), expected.classes),
    )
    near = expected.positives is None or abs(mean - expected.positives) <= expected.within
    return (
        *(Count(what, found, wanted, found == wanted) for what, found, wanted in whole),
        Count("positives per train item", round(mean, 3), expected.positives, near),
    )


def first_of(places: Sequence[Path], *, title: str, page: str) -> Path:
    """The first of these places that exists, or one sentence that says what is missing."""
    for place in places:
        if os.path.exists(place):  # also says no to names that are too long
            return place
    also = "".join(f" or {place}" for place in places[1:])
    raise InputError(f"{places[0]}{also}: is missing; {title} is obtained from {page}")


WAYS = ("refuse", "drop", "keep")


def settle_images(table: LabelTable, way: str, *, title: str, page: str) -> LabelTable:
    """The table with its missing images dealt with, and a note that counts them.

    Args:
        table: A table whose `root` is where the images belong.
        way: "refuse" them, "drop" their items, or "keep" the items (to train on features).
        title: Name of the data set.
        page: Where it is obtained.
    """
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
    """Row number (from 1) and text of every line that is not blank, without outer spaces."""
    found = []
    for row, raw in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        try:
            text = raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            problems.add(f"{raw[:80]!r} is not UTF-8", row=row, source=path)
            continue
        if text:
            found.append((row, text))
    return found


def numbered(path: Path, problems: Problems) -> dict[int, tuple[int, str]]:
    """Lines `number text` as number -> (row, text), in the order of the file."""
    found: dict[int, tuple[int, str]] = {}
    for row, line in text_lines(path, problems):
        number, _, text = line.partition(" ")
        if not NUMBER.fullmatch(number) or not text.strip():
            problems.add(f"{line[:80]!r} is not a number and a value", row=row, source=path)
        elif int(number) in found:
            problems.add(f"number {number} occurs twice", row=row, source=path)
        else:
            found[int(number)] = (row, text.strip())
    return found


def check_classes(path: Path, names: list[tuple[int, str]], problems: Problems) -> None:
    """Records class names, given with their rows, that are unprintable or occur twice."""
    seen: set[str] = set()
    for row, name in names:
        if fault := name_fault(name):
            problems.add(f"class name {name!r} {fault}", row=row, source=path)
        elif name in seen:
            problems.add(f"class {name!r} occurs twice", row=row, source=path)
        seen.add(name)
    if not names and not problems:
        problems.add("names no class", source=path)
