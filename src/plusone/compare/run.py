"""A whole comparison: settings chosen, every seed trained, rows summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plusone.compare.entries import Entry, Runner, make_entries, tune_by_grid
from plusone.compare.jobs import Job, JobResult, Source
from plusone.compare.spec import BenchSpec
from plusone.compare.summary import Summary, summarise

RULES = {
    "default": "nothing was searched: the defaults, with the settings given",
    "rules": "nothing was searched: what is not given is chosen by rules that look at the data",
    "rate": "the learning rate with the best validation score, mean over the seeds",
    "grid": "by validation score with the first seed: the learning rate with default options, then "
    "the options at that rate, from the grid of the method",
    "optuna": "by validation score with the first seed: the best of the {trials} trials of "
    "Optuna's TPE that finished first, the first one with the defaults",
}


@dataclass(frozen=True)
class Bench:
    """A finished comparison.

    Args:
        results: All trainings, also of settings that were not chosen.
        summary: One row per data set, method and mode.
        rule: By which rule settings were chosen.
    """

    results: tuple[JobResult, ...]
    summary: Summary
    rule: str


def run_bench(spec: BenchSpec, folder: Path, run: Runner) -> Bench:
    """Runs a comparison.

    Args:
        spec: What to compare.
        folder: Where Optuna keeps its studies, unless the spec names a database.
        run: Trains jobs and returns their results in order.
    """
    entries = make_entries(spec)
    rates = spec.lr or (None,)
    for entry in entries:  # refuses wrong settings before anything is trained
        entry.jobs(entry.rates(rates), spec.seeds)
    trained: dict[str, tuple[Job, JobResult]] = {}

    def keep(jobs: Sequence[Job]) -> list[JobResult]:
        results = run(jobs)
        pairs = zip(jobs, results, strict=True)
        trained.update({result.key: (job, result) for job, result in pairs})
        return results

    grids = [entry.rates(rates) for entry in entries]
    if spec.tune:
        grids = [[chosen] for chosen in _tune(spec, entries, folder, keep)]
    pairs = zip(entries, grids, strict=True)
    final = keep([job for entry, grid in pairs for job in entry.jobs(grid, spec.seeds)])
    names = data_names(entries, [*trained.values()])
    named = {
        key: result.model_copy(update={"data": names[job.source]})
        for key, (job, result) in trained.items()
    }
    rows = summarise(named[result.key] for result in final)
    return Bench(tuple(named.values()), rows, rule_of(spec))


def rule_of(spec: BenchSpec) -> str:
    """By which rule a comparison chooses settings."""
    if spec.tune:
        return RULES[spec.search].format(trials=spec.trials)
    return RULES["rate" if len(spec.lr) > 1 else "rules" if spec.rules else "default"]


def data_names(
    entries: Sequence[Entry], trained: Sequence[tuple[Job, JobResult]]
) -> dict[Source, str]:
    """What to call each data set: as the user or its reader does; equal names are numbered."""
    given = {entry.source: entry.data for entry in entries}
    names: dict[Source, str] = {}
    for job, result in trained:
        if job.source in names:
            continue
        name = given.get(job.source) or result.data
        same = sum(other == name or other.startswith(f"{name} (") for other in names.values())
        names[job.source] = f"{name} ({same + 1})" if same else name
    return names


def _tune(spec: BenchSpec, entries: Sequence[Entry], folder: Path, run: Runner) -> list[Any]:
    """The chosen settings of each entry."""
    if spec.search == "grid":
        return tune_by_grid(entries, spec.lr or (None,), spec.seeds[0], run)
    from plusone.compare.search import tune_by_optuna

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
