"""How well the hidden training labels were found again (Cole et al. 2021, Table 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from plusone.analysis.runs import Result, by_seed, mean_and_sd


@dataclass(frozen=True)
class Recovery:
    """mAP on the full training labels, which training did not see; mean over seeds.

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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def recovery_table(results: Iterable[Result]) -> list[Recovery]:
    """One row per method and setting; results without known training labels are left out."""
    known = [result for result in results if _value(result, "recovery", "recovery_map") is not None]
    return [_row(group) for group in by_seed(known)]


def _row(group: list[Result]) -> Recovery:
    first = group[0]
    predictions, sd = _mean(group, "recovery", "recovery_map")
    assert predictions is not None
    estimates, estimates_sd = _mean(group, "recovery_estimates", "recovery_map")
    return Recovery(
        data=first["data"],
        method=first["method"],
        mode=first["mode"],
        lr=first["lr"],
        options=dict(first["options"]),
        seeds=len(group),
        predictions=predictions,
        predictions_sd=sd,
        estimates=estimates,
        estimates_sd=estimates_sd,
        hidden=_mean(group, "recovery", "hidden_map")[0],
    )


def _mean(group: list[Result], part: str, name: str) -> tuple[float | None, float | None]:
    values = [value for result in group if (value := _value(result, part, name)) is not None]
    return mean_and_sd(values) if values else (None, None)


def _value(result: Result, part: str, name: str) -> float | None:
    found: float | None = (result.get(part) or {}).get(name)
    return found
