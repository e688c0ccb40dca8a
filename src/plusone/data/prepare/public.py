"""What is known of a public data set, and how a table is checked against the papers' counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from plusone.data.table import LabelTable
from plusone.errors import InputError

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
