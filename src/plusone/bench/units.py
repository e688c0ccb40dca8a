"""Units of work: trainings that one process does at once, as one stack, where that can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plusone.bench.jobs import Job, Source

ARRAY_FILES = (".npz", ".arff", ".xml", ".parquet")  # forms that bring features along


@dataclass(frozen=True)
class Unit:
    """Jobs for one process.

    Args:
        jobs: They differ in the learning rate and the seed only.
        alone: Why they cannot be stacked, where that was found out.
    """

    jobs: tuple[Job, ...]
    alone: str | None = None

    @property
    def name(self) -> str:
        """What to call it in a message."""
        first = self.jobs[0]
        if len(self.jobs) == 1:
            return first.name
        return f"{first.recipe.method}, {len(self.jobs)} trainings at once"

    @property
    def seeds(self) -> list[int]:
        """The seeds of its jobs."""
        return list(dict.fromkeys(job.recipe.seed for job in self.jobs))

    def halves(self) -> list[Unit]:
        """Two units with about half of the seeds each."""
        first = self.seeds[: (len(self.seeds) + 1) // 2]
        parts = [
            [job for job in self.jobs if (job.recipe.seed in first) is half]
            for half in (True, False)
        ]
        return [Unit(tuple(part)) for part in parts]

    def one_by_one(self, why: str) -> list[Unit]:
        """A unit for each job."""
        return [Unit((job,), why) for job in self.jobs]


def make_units(jobs: Sequence[Job], workers: int) -> list[Unit]:
    """Groups jobs that differ in the learning rate and the seed only, in order of appearance.

    Image data is never grouped: its trainings are long and cannot be stacked. If there are fewer
    groups than workers, the largest are halved until nobody is idle, but only between seeds: the
    learning rates of a seed are columns of one product, and what is computed beside a column may
    change its last digits, which training at a high rate makes visible.

    Args:
        jobs: All different.
        workers: How many processes there are to keep busy.
    """
    groups: dict[object, list[Job]] = {}
    for job in jobs:
        same = job.recipe.model_copy(update={"lr": 1.0, "seed": 0}).model_dump_json()
        key = (job.source, same) if maybe_features(job.source) else job.key
        groups.setdefault(key, []).append(job)
    units = [Unit(tuple(group)) for group in groups.values()]
    while len(units) < workers:
        largest = max(range(len(units)), key=lambda place: len(units[place].seeds), default=None)
        if largest is None or len(units[largest].seeds) == 1:
            break
        units[largest : largest + 1] = units[largest].halves()
    return units


def maybe_features(source: Source) -> bool:
    """Whether the data may be feature vectors, seen without reading it."""
    if source.features or source.data == "digits-features":
        return True
    path = Path(source.data)
    return path.suffix.lower() in ARRAY_FILES or any(path.glob("*.arff"))
