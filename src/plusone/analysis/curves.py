"""Learning curves: validation mAP, losses and probes per epoch, averaged over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from plusone.analysis.runs import by_seed, mean_and_sd, read_epochs
from plusone.results import EpochRecord, RunResult

__all__ = ["Average", "LearningCurve", "learning_curves"]


@dataclass(frozen=True)
class Average:
    """One quantity per epoch, averaged over seeds.

    Args:
        mean: Mean over the seeds that reached the epoch and have a value there; None without any.
        sd: Standard deviation over them; None for fewer than two.
    """

    mean: tuple[float | None, ...]
    sd: tuple[float | None, ...]


@dataclass(frozen=True)
class LearningCurve:
    """Trainings that differ by their seed alone, epoch by epoch.

    Args:
        data: Name of the data set.
        method: The method.
        mode: How it was trained.
        lr: Its learning rate.
        options: Its options that differ from the defaults.
        seeds: How many trainings.
        stage: Stage of each epoch, from 0; epochs are numbered through all stages.
        reached: How many of the trainings reached each epoch.
        val_map: Validation mAP.
        losses: Each loss term, and their sum as "total" where there are several.
        distance: Wasserstein distance between hidden positives and true negatives.
    """

    data: str
    method: str
    mode: str
    lr: float
    options: dict[str, Any]
    seeds: int
    stage: tuple[int, ...]
    reached: tuple[int, ...]
    val_map: Average
    losses: dict[str, Average]
    distance: Average

    @property
    def epochs(self) -> tuple[int, ...]:
        """1, 2, ... up to the last epoch."""
        return tuple(range(1, len(self.stage) + 1))


def learning_curves(results: Iterable[RunResult]) -> list[LearningCurve]:
    """One curve per method and setting, over all its seeds.

    Args:
        results: Results with their epochs, or of runs whose folders still hold them.
    """
    return [_curve(group) for group in by_seed(results)]


def _curve(group: list[RunResult]) -> LearningCurve:
    first, runs = group[0], [read_epochs(result) for result in group]
    longest = max(runs, key=len)
    terms = dict.fromkeys(name for run in runs for epoch in run for name in epoch.losses)
    losses = {
        name: _average([[epoch.losses.get(name) for epoch in run] for run in runs])
        for name in terms
    }
    if len(terms) > 1:
        losses["total"] = _average([[_total(epoch) for epoch in run] for run in runs])
    return LearningCurve(
        data=first.data,
        method=first.method,
        mode=first.mode,
        lr=first.lr,
        options=dict(first.options),
        seeds=len(group),
        stage=tuple(epoch.stage for epoch in longest),
        reached=tuple(sum(len(run) > place for run in runs) for place in range(len(longest))),
        val_map=_average([[epoch.val_map for epoch in run] for run in runs]),
        losses=losses,
        distance=_average(
            [[epoch.probe.distance if epoch.probe else None for epoch in run] for run in runs]
        ),
    )


def _average(runs: Sequence[Sequence[float | None]]) -> Average:
    """Mean and standard deviation per epoch; runs may end early and lack values."""
    mean: list[float | None] = []
    sd: list[float | None] = []
    for place in range(max(map(len, runs))):
        values = [run[place] for run in runs if len(run) > place]
        known = [value for value in values if value is not None]
        mean_here, sd_here = mean_and_sd(known) if known else (None, None)
        mean.append(mean_here)
        sd.append(sd_here)
    return Average(tuple(mean), tuple(sd))


def _total(epoch: EpochRecord) -> float | None:
    """The sum of the loss terms; None if one of them was not finite."""
    known = [value for value in epoch.losses.values() if value is not None]
    return sum(known) if len(known) == len(epoch.losses) else None
