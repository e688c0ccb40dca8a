"""A whole comparison: choose settings, train every seed, summarise the rows.

It consists of entries: a method on a data set in a mode, which becomes one row of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from plusone.compare.jobs import (
    Job,
    JobResult,
    Runner,
    Settings,
    make_jobs,
    rate_grid,
)
from plusone.compare.rows import Summary, summarise
from plusone.compare.search import tune_by_optuna
from plusone.compare.spec import BenchSpec, DataSpec, merge_settings
from plusone.data.source import Source, make_source
from plusone.errors import InputError
from plusone.methods import METHODS, get_method
from plusone.recipe import Recipe

IMAGE_MODES = ("finetune", "linear_init")
RULES = {
    "default": "nothing was searched: the defaults, with the settings given",
    "rules": "nothing was searched: what is not given is chosen by rules that look at the data",
    "rates": "the learning rate with the best validation score, mean over the seeds",
    "rate": "the learning rate with the best validation score with the first seed",
    "grid": "by validation score with the first seed: the learning rate with default options, then "
    "the options at that rate, from the grid of the method",
    "optuna": "by validation score with the first seed: the best of the {trials} trials of "
    "Optuna's TPE that finished first, the first one with the defaults",
}


@dataclass(frozen=True)
class Bench:
    """A finished comparison."""

    results: tuple[JobResult, ...]
    summary: Summary
    rule: str


def run_bench(spec: BenchSpec, folder: Path, run: Runner) -> Bench:
    """Runs a comparison; Optuna keeps its studies in the folder, or in the database of the spec."""
    entries = make_entries(spec)
    rates = spec.lr or (None,)
    for entry in entries:  # refuses wrong settings before anything is trained
        entry.jobs(entry.rates(rates), spec.seeds)
    trained: dict[str, tuple[Job, JobResult]] = {}

    def run_and_record(jobs: Sequence[Job]) -> list[JobResult]:
        results = run(jobs)
        pairs = zip(jobs, results, strict=True)
        trained.update({result.key: (job, result) for job, result in pairs})
        return results

    grids = [entry.rates(rates) for entry in entries]
    if spec.tune:
        grids = [[chosen] for chosen in _tune(spec, entries, folder, run_and_record)]
    pairs = zip(entries, grids, strict=True)
    final = run_and_record([job for entry, grid in pairs for job in entry.jobs(grid, spec.seeds)])
    names = data_names(entries, [*trained.values()])
    named = {
        key: result.model_copy(update={"data": names[job.source]})
        for key, (job, result) in trained.items()
    }
    rows = summarise(named[result.key] for result in final)
    return Bench(tuple(named.values()), rows, rule_of(spec))


def rule_of(spec: BenchSpec) -> str:
    """The rule by which a comparison chooses settings."""
    if spec.tune:
        return RULES[spec.search].format(trials=spec.trials)
    return RULES["rates" if len(spec.lr) > 1 else "rules" if spec.rules else "default"]


@dataclass(frozen=True)
class Entry:
    """A method on a data set in a mode: one row of a table."""

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
        return [{}] if "lr" in self.settings else rate_grid(listed, self.method)

    def jobs(self, grid: Sequence[Settings], seeds: Sequence[int]) -> list[Job]:
        """The runs with each of some settings and seeds."""
        grids = {self.method: grid}
        return make_jobs(self.source, [self.method], seeds, grids, self.settings, rules=self.rules)


def make_entries(spec: BenchSpec) -> list[Entry]:
    """The entries of a comparison; unknown data or methods and impossible modes are refused.

    Later settings take precedence: those of the spec, of the data set, of the method, then the
    mode.
    """
    methods = list(METHODS) if "all" in spec.methods else list(spec.methods)
    for name in (*methods, *spec.method):
        get_method(name)
    entries = []
    sources: set[Source] = set()
    for block in spec.data:
        source = make_source(
            block.path,
            [Path(path) for path in block.features],
            block.format,
            block.labels,
            None if block.hints is None else Path(block.hints),
        )
        if source in sources:
            raise InputError(
                f"{block.path}: is listed twice; plusone sweep compares settings on one data set"
            )
        sources.add(source)
        _check_modes(spec, block, source)
        for mode in spec.modes or (None,):
            for name in methods:
                settings = merge_settings(spec.settings, block.settings)
                settings = merge_settings(settings, spec.method.get(name, {}))
                settings |= {} if mode is None else {"mode": mode}
                entry = Entry(source, name, settings, block.name, spec.rules)
                if "all" not in spec.methods or _suits(entry, hinted=block.hints is not None):
                    entries.append(entry)
    return entries


def _suits(entry: Entry, *, hinted: bool) -> bool:
    """Whether the data has what the method needs."""
    info = get_method(entry.method)
    if info.inputs == "any":
        return hinted or not info.needs_hints
    images = entry.source.data == "digits" or _has_images(entry.source)
    mode = entry.mode if entry.mode != "auto" else ("finetune" if images else "linear")
    first = "images" if mode == "finetune" else "features"
    return info.trains_on((first, "images") if mode in IMAGE_MODES else (first,))


def _check_modes(spec: BenchSpec, block: DataSpec, source: Source) -> None:
    """Refuses modes that need images where there are none, before anything is trained."""
    image_modes = [mode for mode in spec.modes if mode in IMAGE_MODES]
    if not image_modes or source.data == "digits":
        return
    if source.features or source.data == "digits-features" or not _has_images(source):
        raise InputError(
            f"{block.path}: has features but no images, so the mode {image_modes[0]} cannot be "
            "used; leave it out of --modes, or compare this data by itself"
        )


def _has_images(source: Source) -> bool:
    features = source.load().features
    return features is None or features.ndim == 4


def option_grid(method: str, chosen: Settings, given: Settings) -> list[Settings]:
    """The chosen settings, and the same with each of the method's alternative options."""
    grid = get_method(method).grid
    others = [dict(options) for options in grid if not options.keys() & given.keys()]
    return [chosen, *(chosen | {"options": options} for options in others)]


def best_settings(tried: Sequence[Settings], results: Sequence[JobResult]) -> Settings:
    """The settings with the best validation score; the first of equals."""
    scores = [result.choice_score for result in results]
    return tried[scores.index(max(scores))]


def tune_by_grid(
    entries: Sequence[Entry],
    rates: Sequence[float | None],
    seed: int,
    run: Runner,
    *,
    options: bool = True,
) -> list[Settings]:
    """The chosen settings of each entry."""

    def choose(grids: Sequence[Sequence[Settings]]) -> list[Settings]:
        pairs = list(zip(entries, grids, strict=True))
        results = iter(run([job for entry, grid in pairs for job in entry.jobs(grid, [seed])]))
        return [best_settings(grid, list(islice(results, len(grid)))) for grid in grids]

    chosen = choose([entry.rates(rates) for entry in entries])
    if not options:
        return chosen
    return choose(
        [
            option_grid(entry.method, rate, entry.options)
            for entry, rate in zip(entries, chosen, strict=True)
        ]
    )


def _tune(spec: BenchSpec, entries: Sequence[Entry], folder: Path, run: Runner) -> list[Settings]:
    if spec.search != "optuna":
        options = spec.search == "grid"
        return tune_by_grid(entries, spec.lr or (None,), spec.seeds[0], run, options=options)
    return tune_by_optuna(
        entries,
        spec.lr,
        spec.seeds[0],
        run,
        trials=spec.trials,
        folder=folder,
        storage=spec.storage,
        workers=spec.workers,
    )


def data_names(
    entries: Sequence[Entry], trained: Sequence[tuple[Job, JobResult]]
) -> dict[Source, str]:
    """The name of each data set, given by the user or its reader; equal names are numbered."""
    given = {entry.source: entry.data for entry in entries}
    names: dict[Source, str] = {}
    for job, result in trained:
        if job.source in names:
            continue
        name = given.get(job.source) or result.data
        same = sum(other == name or other.startswith(f"{name} (") for other in names.values())
        names[job.source] = f"{name} ({same + 1})" if same else name
    return names
