"""From what is to be compared to the list of its trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from plusone.autorecipe import Facts, compose, facts_of
from plusone.compare.jobs import Job, Source
from plusone.data.source import EMBEDDED, load_source
from plusone.errors import InputError

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
    *,
    rules: bool = False,
) -> list[Job]:
    """One job per method, settings to try and seed; wrong settings are refused here, at once.

    The rules do not see the settings to try, except the learning rate: nothing else changes with
    them.

    Args:
        source: The data.
        methods: Names of methods.
        seeds: Seeds of each training.
        grids: Method -> settings to try.
        settings: Settings of all trainings; those to try are laid over them.
        rules: Whether rules that look at the data choose what is not given.
    """
    facts = partial(_facts, source) if rules else None
    jobs = []
    for name in methods:
        for tried in grids[name]:
            rate = {key: tried[key] for key in ("lr",) if key in tried}
            for seed in seeds:
                fixed = {"method": name, "seed": seed}
                made = compose(facts, settings, rate, fixed, name=source.data, over=tried)
                jobs.append(Job(source, made.recipe, made.rules))
    return jobs


@lru_cache(maxsize=64)
def _facts(source: Source, val_share: float) -> Facts:
    """What the rules look at, read once per data set."""
    files = [Path(name) for name in source.features]
    dataset = load_source(source.data, features=files, format=source.format, labels=source.labels)
    return facts_of(dataset, val_share)


def rate_grid(rates: Sequence[float | None]) -> list[Settings]:
    """Settings with each learning rate; None is the one that the rules or the method give."""
    return [{} if rate is None else {"lr": rate} for rate in rates]
