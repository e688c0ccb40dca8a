"""What each epoch of a training brought, wherever it was kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plusone.bounded import parse_json
from plusone.errors import InputError

Epoch = Mapping[str, Any]


def read_epochs(source: Path | str | Mapping[str, Any]) -> list[dict[str, Any]]:
    """The epoch records of a training, in order, as dicts (`plusone.engine.records`).

    Args:
        source: A run folder; or a result, which holds its epochs (benches) or the name of its run
            folder.

    Raises:
        InputError: If a folder has no `records.jsonl`, or a result leads to no records.

    >>> read_epochs({"epochs": [{"epoch": 1, "val_map": 0.5}]})
    [{'epoch': 1, 'val_map': 0.5}]
    """
    if isinstance(source, Mapping):
        if source.get("epochs") is not None:
            return [dict(epoch) for epoch in source["epochs"]]
        if not source.get("run"):
            raise InputError(
                f"the result of {source.get('method', 'a training')} has no records of its epochs "
                "and names no run folder; train it again"
            )
        source = Path(source["run"])
    path = Path(source) / "records.jsonl"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise InputError(
            f"{source}: is not a run folder (there is no records.jsonl); plusone train makes one"
        ) from None
    return _records(path, text)


def _records(path: Path, text: str) -> list[dict[str, Any]]:
    """One record per line; a last line that a kill cut off is passed over."""
    found = []
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_json(line)
        except ValueError:
            if number < len(lines):
                raise InputError(f"{path}, row {number}: is not valid JSON") from None
            continue
        if not isinstance(record, dict):
            raise InputError(f"{path}, row {number}: is not the record of an epoch")
        found.append(record)
    return found
