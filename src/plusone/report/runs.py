"""Results of runs: the records of their epochs, and groups that differ by the seed alone."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from plusone.errors import InputError
from plusone.io.jsonl import read_jsonl
from plusone.results import EpochRecord, RunResult

__all__ = ["Repeated", "by_seed", "mean_and_sd", "read_epochs"]

R = TypeVar("R", bound=RunResult)

SETTINGS = {"data", "method", "mode", "lr", "options", "source", "observation", "recipe"}


def read_epochs(source: Path | str | RunResult) -> list[EpochRecord]:
    """The records of a run's epochs, in order.

    The source is a run folder; or a result, which holds its epochs or the name of its run folder.
    """
    if isinstance(source, RunResult):
        if source.epochs:
            return list(source.epochs)
        if not source.run:
            raise InputError(
                f"the result of {source.method} has no records of its epochs and names no run "
                "folder; train it again"
            )
        source = source.run
    path = Path(source) / "records.jsonl"
    try:
        lines = list(read_jsonl(path))
    except OSError:
        raise InputError(
            f"{source}: is not a run folder (there is no records.jsonl); plusone train makes one"
        ) from None
    except ValueError as error:
        raise InputError(f"{path}, {error}") from None
    return [
        EpochRecord.from_json(line, f"{path}, row {row}") for row, line in enumerate(lines, start=1)
    ]


@dataclass(frozen=True)
class Repeated:
    """The settings of `seeds` runs that differ by their seed alone."""

    data: str
    method: str
    mode: str
    lr: float
    options: dict[str, Any]
    seeds: int

    @staticmethod
    def fields(group: Sequence[RunResult]) -> dict[str, Any]:
        """The fields above, from the results of the runs."""
        names = ("data", "method", "mode", "lr")
        settings = {name: getattr(group[0], name) for name in names}
        return settings | {"options": dict(group[0].options), "seeds": len(group)}


def by_seed(results: Iterable[R]) -> list[list[R]]:
    """Groups of results with the same data, labels and settings except the seed, in order."""
    groups: dict[str, list[R]] = {}
    for result in results:
        groups.setdefault(_settings(result), []).append(result)
    return list(groups.values())


def _settings(result: RunResult) -> str:
    """Data and settings without the seed, as text."""
    settings = result.model_dump(mode="json", include=SETTINGS)
    settings["recipe"].pop("seed", None)
    return json.dumps(settings, sort_keys=True)


def mean_and_sd(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation, which is None for a single value.

    >>> mean_and_sd([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    return math.fsum(values) / len(values), statistics.stdev(values) if len(values) > 1 else None
