"""From the results of many trainings to one row per method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any


@dataclass(frozen=True)
class Row:
    """One method of a comparison, with the settings that validation preferred.

    Args:
        method: Its name.
        data: The data set.
        lr: The chosen learning rate.
        options: The chosen options, where they differ from the method's defaults.
        seeds: How many seeds.
        val_map: Mean over seeds.
        test_map: Mean over seeds; None without a test split.
        test_sd: Sample standard deviation over seeds; None for one seed.
        recovery_map: mAP of the training labels against the truth, mean over seeds.
        seconds: Mean training time of one seed.
    """

    method: str
    data: str
    lr: float
    options: dict[str, Any]
    seeds: int
    val_map: float
    test_map: float | None
    test_sd: float | None
    recovery_map: float | None
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The row for JSON."""
        return asdict(self)


def summarise(results: Sequence[dict[str, Any]]) -> list[Row]:
    """One row per (data, method), in order of appearance; settings by the mean validation mAP."""
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for result in results:
        by_settings = groups.setdefault((result["data"], result["method"]), {})
        settings = json.dumps([result["lr"], result["options"]], sort_keys=True)
        by_settings.setdefault(settings, []).append(result)
    rows = []
    for (data, method), by_settings in groups.items():
        runs = max(by_settings.values(), key=lambda runs: fmean(run["val_map"] for run in runs))
        tests = [run["test_map"] for run in runs if run["test_map"] is not None]
        found = [run["recovery"]["recovery_map"] for run in runs if "recovery" in run]
        rows.append(
            Row(
                method=method,
                data=data,
                lr=runs[0]["lr"],
                options=runs[0]["options"],
                seeds=len(runs),
                val_map=fmean(run["val_map"] for run in runs),
                test_map=fmean(tests) if tests else None,
                test_sd=stdev(tests) if len(tests) > 1 else None,
                recovery_map=fmean(found) if found else None,
                seconds=fmean(run["seconds"] for run in runs),
            )
        )
    return rows


def gap_closed(rows: Sequence[Row], low: str = "an", high: str = "bce") -> dict[str, float]:
    """How far each method gets from AN (0) to all labels (1), by test mAP."""
    score = {row.method: row.test_map for row in rows}
    bottom, top = score.get(low), score.get(high)
    if bottom is None or top is None or top <= bottom:
        return {}
    return {
        name: (value - bottom) / (top - bottom)
        for name, value in score.items()
        if value is not None
    }


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return (
        "\n".join("| " + " | ".join(_plain(cell) for cell in line) + " |" for line in lines) + "\n"
    )


def _plain(cell: object) -> str:
    return str(cell).replace("|", "\\|")
