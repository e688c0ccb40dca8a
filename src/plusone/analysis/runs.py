"""What each epoch of a training brought, wherever it was kept."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from plusone.errors import InputError
from plusone.io.jsonl import read_jsonl

Epoch = Mapping[str, Any]


def read_epochs(source: Path | str | Mapping[str, Any]) -> list[dict[str, Any]]:
    """The epoch records of a training, in order, as dicts (`plusone.results`).

    Args:
        source: A run folder; or a result, which holds its epochs (benches) or the name of its run
            folder.

    Raises:
        InputError: If a folder has no `records.jsonl`, or a result leads to no records.

    >>> read_epochs({"epochs": [{"epoch": 1, "val_map": 0.5}]})
    [{'epoch': 1, 'val_map': 0.5}]
    """
    if isinstance(source, Mapping):
        if source.get("epochs") is not None:
            return [dict(epoch) for epoch in source["epochs"]]
        if not source.get("run"):
            raise InputError(
                f"the result of {source.get('method', 'a training')} has no records of its epochs "
                "and names no run folder; train it again"
            )
        source = Path(source["run"])
    path = Path(source) / "records.jsonl"
    try:
        records = list(read_jsonl(path))
    except OSError:
        raise InputError(
            f"{source}: is not a run folder (there is no records.jsonl); plusone train makes one"
        ) from None
    except ValueError as error:
        raise InputError(f"{path}, {error}") from None
    for row, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise InputError(f"{path}, row {row}: is not the record of an epoch")
    return records


Result = Mapping[str, Any]


def by_seed(results: Iterable[Result]) -> list[list[Result]]:
    """Groups of results with the same data, labels and settings but for the seed, in order.

    >>> one, other = {"method": "an", "seed": 0}, {"method": "an", "seed": 1}
    >>> [len(group) for group in by_seed([one, {"method": "gr", "seed": 0}, other])]
    [2, 1]
    """
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(_settings(result), []).append(result)
    return list(groups.values())


def mean_and_sd(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (n - 1 below the sum); one value has none.

    >>> mean_and_sd([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    return math.fsum(values) / len(values), statistics.stdev(values) if len(values) > 1 else None


def _settings(result: Result) -> str:
    """Everything but the seed, as text."""
    recipe = {key: value for key, value in result.get("recipe", {}).items() if key != "seed"}
    names = ("data", "method", "mode", "lr", "options", "source", "observation")
    parts = [*(result.get(name) for name in names), recipe]
    return json.dumps(parts, sort_keys=True, default=str)
