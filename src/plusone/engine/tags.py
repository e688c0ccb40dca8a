"""Predictions as CSV or JSON, written as they come."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import TextIO

from plusone.data.formats.longform import SEPARATOR
from plusone.engine.items import Skipped
from plusone.engine.prediction import Predictions
from plusone.engine.thresholds import Thresholds, as_dict
from plusone.errors import InputError


class CsvTags:
    """One line per item: its name, its labels joined by `|`, then a probability per class.

    Args:
        file: Where to write.
        classes: Class names.
        thresholds: What counts as a label.
    """

    def __init__(self, file: TextIO, classes: Sequence[str], thresholds: Thresholds) -> None:
        if odd := next((name for name in classes if SEPARATOR in name), None):
            raise InputError(
                f"class {odd!r}: {SEPARATOR} separates labels in CSV; use --json without --out"
            )
        self.writer = csv.writer(file, lineterminator="\n")
        self.cuts = thresholds.array
        self.header: list[str] | None = ["image", "labels", *classes]

    def add(self, found: Predictions) -> None:
        """Writes some items; the header first, once there is an item."""
        if found.ids and self.header is not None:
            self.writer.writerow(self.header)
            self.header = None
        for row, name in enumerate(found.ids):
            scores = [f"{value:.4f}" for value in found.probabilities[row].tolist()]
            self.writer.writerow([name, SEPARATOR.join(found.labels(row, self.cuts)), *scores])

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Nothing is left to write."""


class JsonTags:
    """One JSON object on one line, its items written as they come.

    Args:
        file: Where to write.
        classes: Class names.
        thresholds: What counts as a label.
    """

    def __init__(self, file: TextIO, classes: Sequence[str], thresholds: Thresholds) -> None:
        self.file, self.cuts = file, thresholds.array
        about = {"from": thresholds.origin, "thresholds": as_dict(classes, thresholds)}
        self.before = f'{_text(about)[:-1]}, "items": ['

    def add(self, found: Predictions) -> None:
        """Writes some items."""
        for row, name in enumerate(found.ids):
            scores = [round(value, 6) for value in found.probabilities[row].tolist()]
            item = {
                "id": name,
                "labels": found.labels(row, self.cuts),
                "probabilities": dict(zip(found.classes, scores, strict=True)),
            }
            self.file.write(self.before + _text(item))
            self.before = ", "

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Closes the object."""
        listed = [{"id": one.id, "reason": one.reason} for one in skipped]
        self.file.write(f'], "skipped": {_text(listed)}}}\n')
        self.file.flush()


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
