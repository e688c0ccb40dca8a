"""Many trainings in parallel processes, each done once, whatever happens in between."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from plusone.recipe import Recipe


@dataclass(frozen=True)
class Source:
    """How to load the data of a job; see `plusone.data.source.load_source`."""

    data: str
    features: tuple[str, ...] = ()
    format: str = "auto"
    labels: str = "auto"


@dataclass(frozen=True)
class Job:
    """One training."""

    source: Source
    recipe: Recipe

    @property
    def key(self) -> str:
        """A name that is the same for the same training."""
        text = repr(self.source) + self.recipe.to_toml()
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_jobs(
    jobs: Sequence[Job],
    journal: Path,
    *,
    workers: int = 2,
    on_done: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Runs the jobs that are not in the journal yet; returns the results of all, in order.

    Args:
        jobs: The trainings.
        journal: JSON lines, one finished job each; it is added to as jobs finish, so a stopped
            comparison goes on where it was.
        workers: Processes; each computes on one thread, so that they do not fight for cores.
        on_done: Called with each result, also with those the journal already had.
    """
    results = {result["key"]: result for result in read_journal(journal)}
    wanted = [job.key for job in jobs]
    open_jobs = [job for job in jobs if job.key not in results]
    for key in wanted:
        if key in results and on_done is not None:
            on_done(results[key])
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a", encoding="utf-8") as file:
        for result in _run_in_processes(open_jobs, workers):
            file.write(json.dumps(result) + "\n")
            file.flush()
            results[result["key"]] = result
            if on_done is not None:
                on_done(result)
    return [results[key] for key in wanted]


def read_journal(journal: Path) -> Iterator[dict[str, Any]]:
    """The results in a journal; a line cut off by a kill is passed over."""
    if not journal.exists():
        return
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def run_job(job: Job) -> dict[str, Any]:
    """Trains one job in this process."""
    from plusone.engine.run import summarise
    from plusone.engine.task import make_task
    from plusone.engine.training import Training

    task = make_task(_load(job.source), job.recipe)
    training = Training(task, job.recipe)
    seconds = sum(record.seconds for record in training.epochs())
    return {"key": job.key} | summarise(training, None, seconds)


@lru_cache(maxsize=2)
def _load(source: Source) -> Any:
    from plusone.data.source import load_source

    return load_source(
        source.data,
        features=[Path(path) for path in source.features],
        format=source.format,
        labels=source.labels,
    )


def _run_in_processes(jobs: Sequence[Job], workers: int) -> Iterator[dict[str, Any]]:
    if not jobs:
        return
    pool = ProcessPoolExecutor(
        max_workers=min(workers, len(jobs)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_one_thread,
    )
    try:
        running = {pool.submit(run_job, job) for job in jobs}
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
