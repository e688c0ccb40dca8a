"""Results that differ by nothing but their seed belong together."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
