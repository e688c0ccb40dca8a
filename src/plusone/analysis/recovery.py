"""How well the full training labels were recovered (Cole et al. 2021, Table 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from plusone.analysis.runs import by_seed, mean_and_sd
from plusone.results import RunResult

__all__ = ["Recovery", "recovery_table"]


@dataclass(frozen=True)
class Recovery:
    """mAP on the full training labels, most of which were unobserved; mean over seeds.

    Args:
        data: Name of the data set.
        method: The method.
        mode: How it was trained.
        lr: Its learning rate.
        options: Its options that differ from the defaults.
        seeds: How many seeds.
        predictions: mAP of the model's predictions.
        predictions_sd: Its standard deviation over seeds.
        estimates: mAP of the method's own estimates of the labels, if it keeps any.
        estimates_sd: Its standard deviation.
        hidden: mAP of the predictions on unobserved labels alone.
    """

    data: str
    method: str
    mode: str
    lr: float
    options: dict[str, Any]
    seeds: int
    predictions: float
    predictions_sd: float | None
    estimates: float | None
    estimates_sd: float | None
    hidden: float | None


def recovery_table(results: Iterable[RunResult]) -> list[Recovery]:
    """One row per method and setting; results without known training labels are left out."""
    known = [
        result for result in results if (result.recovery or {}).get("recovery_map") is not None
    ]
    return [_row(group) for group in by_seed(known)]


def _row(group: list[RunResult]) -> Recovery:
    first = group[0]
    recovery = [result.recovery for result in group]
    predictions, predictions_sd = _mean(recovery, "recovery_map")
    assert predictions is not None
    estimates, estimates_sd = _mean([run.recovery_estimates for run in group], "recovery_map")
    return Recovery(
        data=first.data,
        method=first.method,
        mode=first.mode,
        lr=first.lr,
        options=dict(first.options),
        seeds=len(group),
        predictions=predictions,
        predictions_sd=predictions_sd,
        estimates=estimates,
        estimates_sd=estimates_sd,
        hidden=_mean(recovery, "hidden_map")[0],
    )


def _mean(
    metrics: Iterable[Mapping[str, float | None] | None], name: str
) -> tuple[float | None, float | None]:
    """Mean and standard deviation of a metric over the results that have it."""
    values = [value for values in metrics if (value := (values or {}).get(name)) is not None]
    return mean_and_sd(values) if values else (None, None)
