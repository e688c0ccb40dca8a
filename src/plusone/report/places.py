"""Folders to look into, and which trainings in them are the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from plusone.errors import InputError

Result = dict[str, Any]
OWN = "figures"  # what a report itself writes
SAME = ("data", "method", "mode", "seed", "lr", "options", "recipe", "val_map", "test_map")
DEFAULTS: Result = {"mode": "linear", "options": {}, "observation": {}}  # of older journals


def folders(places: Sequence[Path]) -> Iterator[Path]:
    """All folders at or below some places, each once; hidden ones and figures are passed over.

    Raises:
        InputError: If a place does not exist.
    """
    seen: set[Path] = set()
    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such folder")
        for name, below, _ in os.walk(place if place.is_dir() else place.parent):
            below[:] = sorted(part for part in below if not part.startswith(".") and part != OWN)
            folder = Path(name)
            if (whole := folder.resolve()) not in seen:
                seen.add(whole)
                yield folder


def content(result: Result) -> str:
    """What makes a training that training, wherever it is kept."""
    seen = (result.get("observation") or {}).get("digest")
    return json.dumps([*(result.get(name) for name in SAME), seen], sort_keys=True, default=str)


def distinct(results: Iterable[Result]) -> list[Result]:
    """Results without copies, in order."""
    found: dict[str, Result] = {}
    for result in results:
        found.setdefault(content(result), result)
    return list(found.values())


def journal_of(folder: Path) -> list[Result]:
    """The results in a folder's journal, if it has one."""
    from plusone.bench.jobs import read_journal

    return [DEFAULTS | result for result in read_journal(folder / "journal.jsonl")]
