"""How many positives of each class training saw, and how many were hidden from it (GR, Fig. 4)."""

from __future__ import annotations

from dataclasses import dataclass

from plusone.errors import InputError
from plusone.results import RunResult

__all__ = ["ClassCount", "ClassCounts", "class_counts"]


@dataclass(frozen=True)
class ClassCount:
    """One class.

    Args:
        name: Its name.
        seen: Training items with an observed positive of the class.
        missing: Training items of the class whose label is unobserved.
    """

    name: str
    seen: int
    missing: int

    @property
    def true(self) -> int:
        """Training items of the class."""
        return self.seen + self.missing


@dataclass(frozen=True)
class ClassCounts:
    """Seen and missing positives of every class, the most frequent class first.

    Args:
        data: Name of the data set.
        items: Training items.
        rows: One per class.
    """

    data: str
    items: int
    rows: tuple[ClassCount, ...]

    @property
    def missing_share(self) -> float | None:
        """Share of all positives that are unobserved; None if there are no positives."""
        true = sum(row.true for row in self.rows)
        return sum(row.missing for row in self.rows) / true if true else None


def class_counts(result: RunResult) -> ClassCounts:
    """Seen and missing positives per class of the training items of a result.

    Raises:
        InputError: If the true labels of the training items are not known.
    """
    labels = result.labels
    if labels is None:
        raise InputError(
            f"{result.data}: the missing positives are not known, because not all labels of its "
            "training items are"
        )
    rows = [
        ClassCount(name, seen, true - seen)
        for name, seen, true in zip(labels.classes, labels.seen, labels.true, strict=True)
    ]
    rows.sort(key=lambda row: (-row.true, row.name))
    return ClassCounts(result.data, result.items["train"], tuple(rows))
