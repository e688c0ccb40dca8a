"""`<file>.observation.json`: what a CSV file cannot hold, kept beside it.

How its labels were observed, and the folder of its images if that is another one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from plusone.bounded import read_json
from plusone.data.formats.roots import root_from, root_of
from plusone.data.table import LabelTable, Strings
from plusone.files import write_json


def sidecar_path(path: Path) -> Path:
    """Where the observation of a label file is kept."""
    return path.with_name(f"{path.name}.observation.json")


def write_sidecar(table: LabelTable, path: Path) -> None:
    """Writes the sidecar of `table` beside `path`; if there is nothing to say, an old one goes."""
    content: dict[str, Any] = {}
    if table.observation:
        content = {
            "observation": dict(table.observation),
            "digest": table.labels.digest(),
            "default": table.labels.default,
        }
    if (root := root_from(table, path)) not in (None, "."):
        content["images"] = root
    if content:
        write_json(sidecar_path(path), content)
    else:
        sidecar_path(path).unlink(missing_ok=True)


def sidecar_root(ids: Strings, path: Path) -> Path:
    """The folder of the images of a CSV file: the one its sidecar names, or its own."""
    try:
        named = _content(sidecar_path(path)).get("images")
    except (OSError, ValueError, TypeError):
        named = None  # `with_sidecar` says so
    return root_of(ids, path, named if isinstance(named, str) else None)


def with_sidecar(table: LabelTable, path: Path) -> LabelTable:
    """The table with its observation, if there is a sidecar and it belongs to these labels."""
    beside = sidecar_path(path)
    if not beside.is_file():
        return table
    try:
        content = _content(beside)
        if content.keys() == {"images"}:
            return table
        observation, digest = dict(content["observation"]), str(content["digest"])
        default = int(content["default"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return _ignored(table, beside, "it cannot be read")
    if default not in (0, -1):
        return _ignored(table, beside, f"its default is {default}")
    labels = table.labels.with_default(default)
    if labels.digest() != digest:
        return _ignored(table, beside, "it belongs to other labels")
    return replace(table, labels=labels, observation=observation)


def _content(beside: Path) -> dict[str, Any]:
    return dict(read_json(beside))


def _ignored(table: LabelTable, beside: Path, why: str) -> LabelTable:
    return replace(table, notes=(*table.notes, f"{beside.name} was ignored: {why}"))
