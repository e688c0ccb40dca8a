"""The loss surface of a run folder, computed once and kept in its `surface.json`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plusone.analysis.surface import loss_surface
from plusone.bounded import read_json
from plusone.data.dataset import Dataset
from plusone.engine.build import load_run
from plusone.engine.run import fingerprint
from plusone.engine.run_files import finite, read_description, read_recipe
from plusone.engine.task import Task, make_task
from plusone.errors import InputError
from plusone.files import write_json

NAME = "surface.json"


def surface_of_run(
    folder: Path,
    load: Callable[[], Dataset],
    *,
    extent: float = 1.0,
    steps: int = 21,
    seed: int = 0,
    items: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """What `surface.json` of a run holds; computed only if settings or model are other ones.

    Args:
        folder: A complete run.
        load: Gives the data it was trained on; called only if there is something to compute.
        extent: As for `loss_surface`.
        steps: As for `loss_surface`.
        seed: As for `loss_surface`.
        items: As for `loss_surface`.
        on_progress: Called with the number of points just done.
    """
    predictor = load_run(folder)
    settings = {
        "extent": extent,
        "steps": steps,
        "seed": seed,
        "items": items,
        "model": _digest(folder / "model.safetensors"),
    }
    kept = read_surface(folder)
    if kept is not None and settings == {name: kept.get(name) for name in settings}:
        return kept
    task = make_task(load(), read_recipe(folder))
    _check_same_data(folder, task)
    surface = loss_surface(
        predictor,
        task.train,
        extent=extent,
        steps=steps,
        seed=seed,
        items=items,
        on_progress=on_progress,
    )
    found: dict[str, Any] = {"kind": "surface", "data": task.name, "run": os.fspath(folder)}
    found |= finite(json.loads(json.dumps(surface.to_dict()))) | settings
    write_json(folder / NAME, found)
    return found


def read_surface(folder: Path) -> dict[str, Any] | None:
    """The surface kept in a run folder; None if there is none that can be read."""
    try:
        kept = read_json(folder / NAME)
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and kept.get("kind") == "surface" else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _check_same_data(folder: Path, task: Task) -> None:
    """The surface is that of the training loss, so items and seen labels must be the run's."""
    about = read_description(folder)
    now = {"observation": dict(task.observation), "fingerprint": fingerprint(task)}
    for name, what in (("observation", "the seen labels are"), ("fingerprint", "the items are")):
        if about.get(name) != json.loads(json.dumps(now[name])):
            raise InputError(
                f"{task.name}: {what} not those that {folder} was trained on; name the same data"
            )
