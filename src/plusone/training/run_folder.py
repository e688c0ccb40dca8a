"""Reading the small files of a run folder; see `plusone.training.run` for what they hold."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plusone.errors import InputError
from plusone.io.readers import read_json
from plusone.recipe import FORMAT, Recipe, make_recipe, read_toml
from plusone.version import __version__, is_newer, refuse_newer

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
LONGEST_SIDE = 2**24


def read_metrics(folder: Path) -> dict[str, Any]:
    """The result of a complete run."""
    path = folder / "metrics.json"
    try:
        metrics: dict[str, Any] = read_json(path)
    except OSError:
        raise InputError(f"{folder}: holds no complete run (there is no metrics.json)") from None
    except ValueError as error:
        raise InputError(f"{path}: is not valid JSON ({error})") from None
    _check_keys(path, metrics, METRICS)
    return metrics | {"run": os.fspath(folder)}


def read_recipe(folder: Path) -> Recipe:
    """The settings of a run."""
    path = folder / "recipe.toml"
    if not path.is_file():
        raise InputError(f"{folder}: is not a run folder (there is no recipe.toml)")
    values, maker = read_toml(path), _made_by(folder)
    refuse_newer(str(path), values.get("format"), FORMAT, maker)
    try:
        return make_recipe(values, source=str(path))
    except InputError as error:
        if not is_newer(maker):
            raise
        raise InputError(
            f"{error}; the run was made by plusone {maker}, this is plusone {__version__}: "
            "upgrade it"
        ) from None


def _made_by(folder: Path) -> object:
    """The version that made a run, if it says so."""
    try:
        return read_json(folder / "data.json")["versions"]["plusone"]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def read_description(folder: Path) -> dict[str, Any]:
    """What `data.json` says: data set, classes, input shape, observation."""
    path = folder / "data.json"
    value = read_plain(path, DESCRIPTION)
    refuse_newer(str(path), value.get("format"), FORMAT, _made_by(folder))
    for key, sound in SOUND.items():
        if not sound(value[key]):
            raise InputError(f"{path}: {key} is not what plusone train writes; train again")
    return value


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _sides(value: Any) -> bool:
    """The shape of one input: a few sides, none of them absurd."""
    return (
        isinstance(value, list)
        and 1 <= len(value) <= 3
        and all(type(side) is int and 0 < side <= LONGEST_SIDE for side in value)
    )


def _number(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and math.isfinite(value))


SOUND: dict[str, Callable[[Any], bool]] = {
    "data": lambda value: isinstance(value, str),
    "classes": lambda value: _texts(value) and len(set(value)) == len(value) > 0,
    "images": lambda value: isinstance(value, bool),
    "shape": _sides,
    "k": _number,
    "source": lambda value: isinstance(value, dict),
    "observation": lambda value: isinstance(value, dict),
}


def read_plain(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object that must have certain keys."""
    try:
        value: dict[str, Any] = read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    _check_keys(path, value, keys)
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
