"""How many positives of each class training saw, and how many it missed (GR, Fig. 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from plusone.errors import InputError


@dataclass(frozen=True)
class ClassCount:
    """One class.

    Args:
        name: Its name.
        seen: Training items in which it was seen.
        missing: Training items that have it without anybody saying so.
    """

    name: str
    seen: int
    missing: int

    @property
    def true(self) -> int:
        """Training items that have it."""
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
        """Share of all positives that nobody saw; None if there are none."""
        true = sum(row.true for row in self.rows)
        return sum(row.missing for row in self.rows) / true if true else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        rows = [asdict(row) | {"true": row.true} for row in self.rows]
        return {
            "data": self.data,
            "items": self.items,
            "missing_share": self.missing_share,
            "rows": rows,
        }


def class_counts(result: Mapping[str, Any]) -> ClassCounts:
    """Counts of seen and missing positives per class from the `labels` of a result.

    >>> labels = {"classes": ["cat", "dog"], "seen": [1, 2], "true": [2, 5]}
    >>> found = class_counts({"data": "pets", "items": {"train": 6}, "labels": labels})
    >>> [(row.name, row.seen, row.missing) for row in found.rows]
    [('dog', 2, 3), ('cat', 1, 1)]
    """
    labels = result.get("labels")
    if labels is None:
        raise InputError(
            f"{result.get('data', 'the data')}: the missing positives are not known, because not "
            "all labels of its training items are"
        )
    rows = [
        ClassCount(name, seen, true - seen)
        for name, seen, true in zip(labels["classes"], labels["seen"], labels["true"], strict=True)
    ]
    rows.sort(key=lambda row: (-row.true, row.name))
    return ClassCounts(str(result.get("data", "")), int(result["items"]["train"]), tuple(rows))
