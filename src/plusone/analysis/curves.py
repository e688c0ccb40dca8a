"""Learning curves: what each epoch brought, averaged over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from plusone.analysis.runs import Epoch, Result, by_seed, mean_and_sd, read_epochs


@dataclass(frozen=True)
class Line:
    """One quantity over the epochs.

    Args:
        mean: Mean over the seeds that reached the epoch and have a value there; None without any.
        sd: Standard deviation over them; None for fewer than two.
    """

    mean: tuple[float | None, ...]
    sd: tuple[float | None, ...]


@dataclass(frozen=True)
class LearningCurve:
    """The course of trainings that differ by their seed alone.

    Args:
        data: Name of the data set.
        method: The method.
        mode: How it was trained.
        lr: Its learning rate.
        options: Its options that differ from the defaults.
        seeds: How many trainings.
        stage: Stage of each epoch, from 0; epochs are counted on through the stages.
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
    val_map: Line
    losses: dict[str, Line]
    distance: Line

    @property
    def epochs(self) -> tuple[int, ...]:
        """1, 2, ... up to the last epoch."""
        return tuple(range(1, len(self.stage) + 1))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | {"epochs": list(self.epochs)}


def learning_curves(results: Iterable[Result]) -> list[LearningCurve]:
    """One curve per method and setting, over all its seeds.

    Args:
        results: Results with their epochs, or of runs whose folders still hold them.
    """
    return [_curve(group) for group in by_seed(results)]


def _curve(group: list[Result]) -> LearningCurve:
    first, courses = group[0], [read_epochs(result) for result in group]
    longest = max(courses, key=len)
    terms = dict.fromkeys(
        name for course in courses for epoch in course for name in epoch["losses"]
    )
    losses = {
        name: _line([[epoch["losses"].get(name) for epoch in course] for course in courses])
        for name in terms
    }
    if len(terms) > 1:
        losses["total"] = _line([[_total(epoch) for epoch in course] for course in courses])
    return LearningCurve(
        data=first["data"],
        method=first["method"],
        mode=first["mode"],
        lr=first["lr"],
        options=dict(first["options"]),
        seeds=len(group),
        stage=tuple(int(epoch.get("stage", 0)) for epoch in longest),
        reached=tuple(
            sum(len(course) > place for course in courses) for place in range(len(longest))
        ),
        val_map=_line([[epoch["val_map"] for epoch in course] for course in courses]),
        losses=losses,
        distance=_line([[_distance(epoch) for epoch in course] for course in courses]),
    )


def _line(courses: Sequence[Sequence[float | None]]) -> Line:
    """Mean and spread at every place of sequences that may end early or have gaps."""
    mean: list[float | None] = []
    sd: list[float | None] = []
    for place in range(max(map(len, courses))):
        here = [course[place] for course in courses if len(course) > place]
        values = [value for value in here if value is not None]
        middle, spread = mean_and_sd(values) if values else (None, None)
        mean.append(middle)
        sd.append(spread)
    return Line(tuple(mean), tuple(sd))


def _total(epoch: Epoch) -> float | None:
    values = list(epoch["losses"].values())
    return None if None in values else sum(values)


def _distance(epoch: Epoch) -> float | None:
    probe = epoch.get("probe")
    found: float | None = None if probe is None else probe["distance"]
    return found
