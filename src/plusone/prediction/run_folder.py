"""Reading the small files of a run folder; see `plusone.training.run` for what they hold."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from plusone.data.classes_file import (
    closed,
    parents_file,
    read_hierarchy,
    read_parents,
    with_parents,
)
from plusone.data.formats import read as read_table
from plusone.data.source import Source
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.readers import read_json
from plusone.recipe import FORMAT, Recipe, make_recipe, read_toml
from plusone.results import Record, RunDescription, RunResult
from plusone.version import __version__, is_newer, refuse_newer

OBSERVED = "observed.npz"
STOPPED = "stopped.json"
MOST_VALUES = 2**25  # of one input: an image of 2048 x 2048 pixels has 12.6 million


class Divergence(Record):
    """Why a training stopped; the content of `stopped.json`.

    Args:
        why: What is not finite, and where.
        epoch: The epoch whose weights were saved; None if there are none.
    """

    why: str
    epoch: int | None


def read_metrics(folder: Path) -> RunResult:
    """The result of a complete run."""
    path = folder / "metrics.json"
    try:
        value = read_json(path)
    except OSError:
        raise InputError(f"{folder}: holds no complete run (there is no metrics.json)") from None
    except ValueError as error:
        raise InputError(f"{path}: is not valid JSON ({error})") from None
    result = RunResult.from_json(value, str(path))
    return result.model_copy(update={"run": os.fspath(folder)})


def read_recipe(folder: Path) -> Recipe:
    """The settings of a run, which may come from elsewhere.

    It does not decide where files are written here (`cache_dir` is left out), nor how many
    processes start and how much memory is used: more than this computer has becomes what it has.
    """
    path = folder / "recipe.toml"
    if not path.is_file():
        raise InputError(f"{folder}: is not a run folder (there is no recipe.toml)")
    values, maker = read_toml(path), _made_by(folder)
    refuse_newer(str(path), values.get("format"), FORMAT, maker)
    try:
        recipe = make_recipe(values, source=str(path))
    except InputError as error:
        if not is_newer(maker):
            raise
        raise InputError(
            f"{error}; the run was made by plusone {maker}, this is plusone {__version__}: "
            "upgrade it"
        ) from None
    _check_plugin(folder, recipe.method)
    return for_this_computer(recipe)


def _check_plugin(folder: Path, method: str) -> None:
    """Says which plug-in a run needs, if it is not loaded; none is loaded because a run says so."""
    try:
        plugin = RunDescription.from_json(read_json(folder / "data.json"), "data.json").plugin
    except (OSError, ValueError):
        return
    if plugin is None:
        return
    from plusone.methods import METHODS

    if method not in METHODS:
        how = f"add --plugin {plugin}" if plugin.endswith(".py") else "install it"
        raise InputError(
            f"{folder}: was trained with the method {method!r} of the plug-in {plugin}, which is "
            f"not loaded; if you trust it, {how}"
        )


def for_this_computer(recipe: Recipe) -> Recipe:
    """A recipe from elsewhere, with no more processes and memory than there are here."""
    cores = os.cpu_count() or 1
    update = {
        "cache_dir": None,
        "workers": recipe.workers if recipe.workers == "auto" else min(recipe.workers, cores),
        "threads": None if recipe.threads is None else min(recipe.threads, cores),
        "cache_mb": min(recipe.cache_mb, max(2000, _memory_mb() // 2)),
    }
    return recipe.model_copy(update=update)


def _memory_mb() -> int:
    """Megabytes of memory of this computer; 0 if the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1_000_000
    except (AttributeError, OSError, ValueError):
        return 0


def _made_by(folder: Path) -> object:
    """The version of plusone that wrote a run, if it is recorded."""
    try:
        return read_json(folder / "data.json")["versions"]["plusone"]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def read_description(folder: Path) -> RunDescription:
    """The description of the data: data set, classes, input shape, observation."""
    path = folder / "data.json"
    value = _read_object(path)
    refuse_newer(str(path), value.get("format"), FORMAT, _made_by(folder))
    description = RunDescription.from_json(value, str(path))
    if len(set(description.classes)) < len(description.classes):
        raise InputError(f"{path}: names a class twice; train again")
    if math.prod(description.shape) > MOST_VALUES:
        shape = " x ".join(map(str, description.shape))
        raise InputError(f"{path}: an input of {shape} values is larger than {MOST_VALUES:,}")
    return description


def read_observed(folder: Path) -> LabelTable:
    """The observed labels of a run, with its items and their splits.

    Raises:
        InputError: They have other classes than the run, or more items: what a reader allocates
            follows from the description of the run.
    """
    description, path = read_description(folder), folder / OBSERVED
    table = read_table(path, check_images=False).table
    if table.classes != description.classes:
        raise InputError(f"{path}: has other classes than data.json beside it; train again")
    table = replace(table, hierarchy=read_hierarchy(folder, table.classes))
    items = sum(description.items.values())
    if description.items and len(table) > max(items, 1):  # an export has a blank row
        raise InputError(f"{path}: has {len(table):,} items, data.json beside it {items:,}")
    return closed(table)


def read_audit(path: Path, run: Path) -> LabelTable:
    """An audit of items of a run, closed by its hierarchy."""
    table, parents = read_table(path, check_images=False).table, parents_file(run)
    return table if parents is None else with_parents(table, read_parents(parents), path)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value: object = read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: is not what plusone writes (its content is not an object)")
    return value


def is_unfinished(folder: Path) -> bool:
    """Whether a run was stopped before its end: its weights may lack their calibration.

    A training begins with `records.jsonl` and ends with `metrics.json`, or with `stopped.json` if
    it diverged. A published folder has none of them.
    """
    ended = any((folder / name).exists() for name in ("metrics.json", STOPPED))
    return (folder / "records.jsonl").exists() and not ended


def refuse_diverged(folder: Path) -> None:
    """Refuses to resume a run that diverged: it would diverge again."""
    if (divergence := _divergence(folder)) is not None:
        raise InputError(
            f"{folder}: {divergence.why}, and resuming would end there again; start anew with a "
            "smaller learning rate and another --out"
        )


def divergence_warning(folder: Path) -> str | None:
    """A warning for users of a run that diverged; None if it did not."""
    divergence = _divergence(folder)
    if divergence is None:
        return None
    return (
        f"this run stopped early ({divergence.why}); these are its weights of epoch "
        f"{divergence.epoch}"
    )


def _divergence(folder: Path) -> Divergence | None:
    path = folder / STOPPED
    return Divergence.from_json(_read_object(path), str(path)) if path.exists() else None


def source_of(run: Path) -> Source:
    """The data that a run was trained on."""
    source = Source.from_json(read_description(run).source)
    if source is None:
        raise InputError(
            f"{run}: does not say which data it was trained on; name the data after the run"
        )
    classes = parents_file(run)
    return replace(source, classes=None if classes is None else os.fspath(classes))
