"""Cells: trainings that differ in seed and learning rate alone, and so become one figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plusone.compare.jobs import Job, JobResult, Source
from plusone.compare.plan import Settings, make_jobs, rate_grid
from plusone.errors import InputError

Runner = Callable[[Sequence[Job]], list[JobResult]]


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
