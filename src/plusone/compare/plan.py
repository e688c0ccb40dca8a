"""From what is to be compared to the list of its trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plusone.compare.jobs import Job, Source
from plusone.data.source import DATA_DEFAULTS, EMBEDDED
from plusone.errors import InputError
from plusone.methods import get_method
from plusone.recipe import make_recipe

Settings = dict[str, Any]


def make_source(data: str, features: Sequence[Path], form: str, meaning: str) -> Source:
    """How to load a data set, with paths that mean the same from any folder.

    Args:
        data: The name of an embedded data set, or a path.
        features: Feature files or folders.
        form: The form of the labels, or auto.
        meaning: What zeros mean, or auto.
    """
    place = data if data in EMBEDDED else str(Path(data).resolve())
    if place != data and not Path(data).exists():
        raise InputError(f"{data}: no such file or folder")
    return Source(place, tuple(str(path.resolve()) for path in features), form, meaning)


def make_jobs(
    source: Source,
    methods: Sequence[str],
    seeds: Sequence[int],
    grids: Mapping[str, Sequence[Settings]],
    settings: Settings,
) -> list[Job]:
    """One job per method, settings to try and seed; wrong settings are refused here, at once.

    Args:
        source: The data.
        methods: Names of methods.
        seeds: Seeds of each training.
        grids: Method -> settings to try.
        settings: Settings of all trainings; those to try are laid over them.
    """
    jobs = []
    for name in methods:
        info = get_method(name)
        for tried in grids[name]:
            for seed in seeds:
                first = [DATA_DEFAULTS.get(source.data, {}), info.defaults, settings, tried]
                recipe = make_recipe(*first, {"method": name, "seed": seed}, source="settings")
                info.make_options(recipe.options)
                jobs.append(Job(source, recipe))
    return jobs


def rate_grid(rates: Sequence[float | None]) -> list[Settings]:
    """Settings with each learning rate; None is the method's default."""
    return [{} if rate is None else {"lr": rate} for rate in rates]
