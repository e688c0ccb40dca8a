"""Entries of a comparison: a method on a data set in a mode, which becomes one row of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from plusone.compare.jobs import Job, JobResult, Source
from plusone.compare.plan import make_jobs, make_source, rate_grid
from plusone.compare.spec import BenchSpec, DataSpec, merge_settings
from plusone.errors import InputError
from plusone.methods import METHODS, get_method
from plusone.recipe import Recipe

Settings = dict[str, Any]
IMAGE_MODES = ("finetune", "linear_init")


@dataclass(frozen=True)
class Entry:
    """What becomes one row.

    Args:
        source: The data.
        method: Name of the method.
        settings: Settings of all its trainings.
        data: What the user calls the data, if anything.
        rules: Whether rules that look at the data choose what is not given.
    """

    source: Source
    method: str
    settings: Settings
    data: str | None = None
    rules: bool = False

    @property
    def mode(self) -> str:
        """The mode that was asked for; auto if none was."""
        return str(self.settings.get("mode", Recipe.model_fields["mode"].default))

    @property
    def options(self) -> Settings:
        """Options of the method that the user gave."""
        return dict(self.settings.get("options", {}))

    def rates(self, listed: Sequence[float | None]) -> list[Settings]:
        """Settings with each learning rate of the comparison, unless the entry has its own."""
        return [{}] if "lr" in self.settings else rate_grid(listed)

    def jobs(self, grid: Sequence[Settings], seeds: Sequence[int]) -> list[Job]:
        """The trainings with each of some settings and seeds."""
        grids = {self.method: grid}
        return make_jobs(self.source, [self.method], seeds, grids, self.settings, rules=self.rules)


def make_entries(spec: BenchSpec) -> list[Entry]:
    """The entries of a comparison; unknown data or methods and impossible modes are refused.

    Settings lie over each other in this order: of the spec, of the data set, of the method, the
    mode.
    """
    methods = list(METHODS) if "all" in spec.methods else list(spec.methods)
    for name in (*methods, *spec.method):
        get_method(name)
    entries = []
    sources: set[Source] = set()
    for block in spec.data:
        source = make_source(
            block.path, [Path(path) for path in block.features], block.format, block.labels
        )
        if source in sources:
            raise InputError(
                f"{block.path}: is there twice; one comparison has each data set once (plusone "
                "sweep compares settings)"
            )
        sources.add(source)
        _check_modes(spec, block, source)
        for mode in spec.modes or (None,):
            for name in methods:
                settings = merge_settings(spec.settings, block.settings)
                settings = merge_settings(settings, spec.method.get(name, {}))
                settings |= {} if mode is None else {"mode": mode}
                entries.append(Entry(source, name, settings, block.name, spec.rules))
    return entries


def _check_modes(spec: BenchSpec, block: DataSpec, source: Source) -> None:
    """Refuses modes that need images where there are none, before anything is trained."""
    wanted = [mode for mode in spec.modes if mode in IMAGE_MODES]
    if not wanted or source.data == "digits":
        return
    if source.features or source.data == "digits-features" or not _has_images(source):
        raise InputError(
            f"{block.path}: has features but no images, so the mode {wanted[0]} cannot be; leave "
            "it out of --modes, or compare this data by itself"
        )


def _has_images(source: Source) -> bool:
    from plusone.data.source import load_source

    features = load_source(source.data, format=source.format, labels=source.labels).features
    return features is None or features.ndim == 4


Runner = Callable[[Sequence[Job]], list[JobResult]]


def option_grid(method: str, chosen: Settings, given: Settings) -> list[Settings]:
    """The chosen settings, and the same with each of the method's alternative options.

    Args:
        method: Its name.
        chosen: Settings so far.
        given: Options the user gave; alternatives to these are not tried.
    """
    grid = get_method(method).grid
    others = [dict(options) for options in grid if not options.keys() & given.keys()]
    return [chosen, *(chosen | {"options": options} for options in others)]


def best_settings(tried: Sequence[Settings], results: Sequence[JobResult]) -> Settings:
    """The settings with the best validation score; of equals the first."""
    scores = [result.choice_score for result in results]
    return tried[scores.index(max(scores))]


def tune_by_grid(
    entries: Sequence[Entry], rates: Sequence[float | None], seed: int, run: Runner
) -> list[Settings]:
    """The chosen settings of each entry.

    Args:
        entries: What to tune.
        rates: Learning rates to choose from; None is the method's default.
        seed: The seed to choose with.
        run: Trains jobs and returns their results in order.
    """

    def choose(grids: Sequence[Sequence[Settings]]) -> list[Settings]:
        pairs = list(zip(entries, grids, strict=True))
        found = iter(run([job for entry, grid in pairs for job in entry.jobs(grid, [seed])]))
        return [best_settings(grid, list(islice(found, len(grid)))) for grid in grids]

    chosen = choose([entry.rates(rates) for entry in entries])
    return choose(
        [
            option_grid(entry.method, rate, entry.options)
            for entry, rate in zip(entries, chosen, strict=True)
        ]
    )
