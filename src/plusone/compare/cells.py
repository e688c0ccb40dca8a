"""Cells: trainings that differ in seed and learning rate alone, and so become one figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from plusone.compare.jobs import Job, JobResult, Source
from plusone.compare.plan import Settings, make_jobs, rate_grid
from plusone.compare.summary import mean_score
from plusone.errors import InputError

Runner = Callable[[Sequence[Job]], list[JobResult]]


@dataclass(frozen=True)
class Outcome:
    """What a cell gives, with the learning rate that validation preferred.

    Args:
        data: The data set.
        method: The method.
        lr: The chosen learning rate.
        seeds: How many seeds.
        val_map: Mean over seeds.
        test_map: Mean over seeds; None without a test split.
        test_sd: Sample standard deviation over seeds; None for one seed.
        keys: The trainings behind it.
    """

    data: str
    method: str
    lr: float
    seeds: int
    val_map: float
    test_map: float | None
    test_sd: float | None
    keys: tuple[str, ...]


def plan_cell(
    name: str,
    source: Source,
    method: str,
    seeds: Sequence[int],
    rates: Sequence[float | None],
    settings: Settings,
    own: Settings,
    *,
    rules: bool = False,
) -> list[Job]:
    """The trainings of a cell; settings that the method refuses are refused here, by name.

    Args:
        name: What to call the cell in a message.
        source: The data.
        method: The method.
        seeds: Its seeds.
        rates: Learning rates to choose from; None is the method's own.
        settings: Settings of all cells.
        own: Settings of this cell, laid over the others.
        rules: Whether rules that look at the data choose what is not given.
    """
    tried = [rate | own for rate in rate_grid(rates)]
    try:
        return make_jobs(source, [method], seeds, {method: tried}, settings, rules=rules)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def run_cells(cells: Sequence[Sequence[Job]], run: Runner) -> list[list[JobResult]]:
    """The results of each cell; a training that several cells share is done once."""
    jobs = {job.key: job for cell in cells for job in cell}
    results = dict(zip(jobs, run(list(jobs.values())), strict=True))
    return [[results[job.key] for job in cell] for cell in cells]


def outcome(results: Sequence[JobResult]) -> Outcome:
    """Sums up the results of one cell; of learning rates that validate alike the first."""
    by_rate: dict[float, list[JobResult]] = {}
    for result in results:
        by_rate.setdefault(result.lr, []).append(result)
    runs = max(by_rate.values(), key=mean_score)
    tests = [run.test_map for run in runs if run.test_map is not None]
    return Outcome(
        data=runs[0].data,
        method=runs[0].method,
        lr=runs[0].lr,
        seeds=len(runs),
        val_map=fmean(run.val_map for run in runs),
        test_map=fmean(tests) if tests else None,
        test_sd=stdev(tests) if len(tests) > 1 else None,
        keys=tuple(run.key for run in runs),
    )
