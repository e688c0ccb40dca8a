"""`<file>.observation.json`: how the labels of a CSV file were observed, kept beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from plusone.data.table import LabelTable
from plusone.files import write_json


def sidecar_path(path: Path) -> Path:
    """Where the observation of a label file is kept."""
    return path.with_name(f"{path.name}.observation.json")


def write_sidecar(table: LabelTable, path: Path) -> None:
    """Writes the observation of `table` beside `path`; without one, an old sidecar goes."""
    beside = sidecar_path(path)
    if not table.observation:
        beside.unlink(missing_ok=True)
        return
    content = {
        "observation": dict(table.observation),
        "digest": table.labels.digest(),
        "default": table.labels.default,
    }
    write_json(beside, content)


def with_sidecar(table: LabelTable, path: Path) -> LabelTable:
    """The table with its observation, if there is a sidecar and it belongs to these labels."""
    beside = sidecar_path(path)
    if not beside.is_file():
        return table
    try:
        content = json.loads(beside.read_text(encoding="utf-8"))
        observation, digest = dict(content["observation"]), str(content["digest"])
        default = int(content["default"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return _ignored(table, beside, "it cannot be read")
    if default not in (0, -1):
        return _ignored(table, beside, f"its default is {default}")
    labels = table.labels.with_default(default)
    if labels.digest() != digest:
        return _ignored(table, beside, "it belongs to other labels")
    return replace(table, labels=labels, observation=observation)


def _ignored(table: LabelTable, beside: Path, why: str) -> LabelTable:
    return replace(table, notes=(*table.notes, f"{beside.name} was ignored: {why}"))
