"""Reading the small files of a run folder; see `plusone.engine.run` for what they hold."""

from __future__ import annotations

import json
import math
import os
import tomllib
from pathlib import Path
from typing import Any

from plusone.errors import InputError
from plusone.recipe import Recipe, make_recipe

METRICS = (
    "method",
    "seed",
    "val_map",
    "test_map",
    "best_epoch",
    "selected_on",
    "seconds",
    "data",
    "lr",
)
DESCRIPTION = ("data", "classes", "images", "shape", "k", "source", "observation")


def read_metrics(folder: Path) -> dict[str, Any]:
    """The result of a complete run."""
    path = folder / "metrics.json"
    try:
        metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{folder}: holds no complete run (there is no metrics.json)") from None
    except ValueError as error:
        raise InputError(f"{path}: is not valid JSON ({error})") from None
    _check_keys(path, metrics, METRICS)
    return metrics | {"run": os.fspath(folder)}


def read_recipe(folder: Path) -> Recipe:
    """The settings of a run."""
    path = folder / "recipe.toml"
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{folder}: is not a run folder (there is no recipe.toml)") from None
    except ValueError as error:
        raise InputError(f"{path}: is not valid TOML ({error})") from None
    return make_recipe(values, source=str(path))


def read_description(folder: Path) -> dict[str, Any]:
    """What `data.json` says: data set, classes, input shape, observation."""
    path = folder / "data.json"
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    _check_keys(path, value, DESCRIPTION)
    return value


def _check_keys(path: Path, value: object, keys: tuple[str, ...]) -> None:
    missing = [key for key in keys if not isinstance(value, dict) or key not in value]
    if missing:
        raise InputError(
            f"{path}: is not what plusone train writes (missing: {', '.join(missing)})"
        )


def finite(value: Any) -> Any:
    """The same value with None for numbers that JSON cannot hold."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
