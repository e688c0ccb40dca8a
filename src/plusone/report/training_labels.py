"""Training labels: how many of each class were missing, and how well hidden ones were recovered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from plusone.compare.results_table import spread
from plusone.errors import InputError
from plusone.report.blocks import Block, Cell, Drawing, Section, Table
from plusone.report.material import Group, Material
from plusone.report.runs import Repeated, by_seed, mean_and_sd
from plusone.report.style import BLUE, INK, ORANGE, canvas, headline, plain, styled
from plusone.results import RunResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 45  # classes up to which each gets its name
ROOM = 2.5  # times the highest bar up to which the number of items is drawn


@dataclass(frozen=True)
class Recovery(Repeated):
    """mAP on the full training labels, most of which were unobserved; mean over seeds.

    Args:
        estimates: mAP of the method's own estimates of the labels, if it keeps any.
        hidden: mAP of the predictions on unobserved labels alone.
    """

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
    recovery = [result.recovery for result in group]
    predictions, predictions_sd = _mean(recovery, "recovery_map")
    assert predictions is not None
    estimates, estimates_sd = _mean([run.recovery_estimates for run in group], "recovery_map")
    return Recovery(
        **Repeated.fields(group),
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


@dataclass(frozen=True)
class ClassCount:
    """One class.

    Args:
        seen: Training items with an observed positive of the class.
        missing: Training items of the class whose label is unobserved.
    """

    name: str
    seen: int
    missing: int

    @property
    def true(self) -> int:
        """Training items of the class."""
        return self.seen + self.missing


@dataclass(frozen=True)
class ClassCounts:
    """Seen and missing positives of every class, the most frequent class first."""

    data: str
    items: int
    rows: tuple[ClassCount, ...]

    @property
    def missing_share(self) -> float | None:
        """Share of all positives that are unobserved; None if there are no positives."""
        true = sum(row.true for row in self.rows)
        return sum(row.missing for row in self.rows) / true if true else None


def class_counts(result: RunResult) -> ClassCounts:
    """Seen and missing positives per class of the training items of a result."""
    labels = result.labels
    if labels is None:
        raise InputError(
            f"{result.data}: the missing positives are not known, because not all labels of its "
            "training items are"
        )
    rows = [
        ClassCount(name, seen, true - seen)
        for name, seen, true in zip(labels.classes, labels.seen, labels.true, strict=True)
    ]
    rows.sort(key=lambda row: (-row.true, row.name))
    return ClassCounts(result.data, result.items["train"], tuple(rows))


def recovery(material: Material) -> Section:
    """How well the full training labels were recovered (Cole et al. 2021, Table 2)."""
    tables = [table for group in material.groups if (table := _table(group)) is not None]
    return Section(
        "recovery",
        "Recovery of the training labels",
        "mAP on the training items against all their labels, most of which training did not see "
        "(Cole et al. 2021, Table 2). “Hidden” counts unobserved labels alone. “Estimates” are "
        "labels that the method itself keeps for every training item, as ROLE does. All in %.",
        tuple(tables),
    )


def _table(group: Group) -> Block | None:
    rows = [(entry, found[0]) for entry in group.ranked if (found := recovery_table(entry.runs))]
    if not rows:
        return None
    columns = {
        "method": [Cell(entry.method, strong=entry.row.best) for entry, _ in rows],
        "predictions": [_cell(row.predictions, row.predictions_sd) for _, row in rows],
        "hidden": [_cell(row.hidden, None) for _, row in rows],
        "estimates": [_cell(row.estimates, row.estimates_sd) for _, row in rows],
    }
    if not any(row.estimates is not None for _, row in rows):
        del columns["estimates"]
    return Table(
        group.name,
        tuple((name, "") for name in columns),
        tuple(zip(*columns.values(), strict=True)),
        quiet=frozenset(place for place, (entry, _) in enumerate(rows) if entry.reference),
    )


def _cell(mean: float | None, sd: float | None) -> Cell:
    return Cell("–") if mean is None else Cell(spread(mean, sd), mean)


def missing_positives(material: Material) -> Section:
    """Seen and missing positives per class (GR, Fig. 4)."""
    blocks: list[Block] = []
    drawn = set()
    for group in material.groups:
        runs = [run for entry in group.ranked if not entry.reference for run in entry.runs]
        known = [run for run in runs if run.labels is not None]
        if known and group.data not in drawn:
            drawn.add(group.data)
            draw = partial(seen_and_missing, class_counts(known[0]))
            blocks.append(Drawing(f"missing-{group.slug}", draw))
    return Section(
        "missing",
        "Seen and missing positives",
        "Positive labels of the training items per class: those that training saw, and those that "
        "were hidden from it (GR, Fig. 4).",
        tuple(blocks),
    )


@styled
def seen_and_missing(counts: ClassCounts) -> Figure:
    """Stacked bars, most frequent class first."""
    rows = counts.rows
    named = len(rows) <= NAMED
    figure, (axes,) = canvas(3.0 if named else 2.6)
    places = np.arange(len(rows))
    width = 0.75 if named else 1.0
    seen = np.array([row.seen for row in rows])
    axes.bar(places, seen, width, color=BLUE, label="seen")
    axes.bar(
        places, [row.missing for row in rows], width, bottom=seen, color=ORANGE, label="missing"
    )
    if named:
        axes.set_xticks(places, [plain(row.name, 18) for row in rows])
        if len(rows) > 12 or max((len(row.name) for row in rows), default=0) > 7:
            for name in axes.get_xticklabels():
                name.set(rotation=45, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks([])
        axes.set_xlabel(f"{len(rows)} classes, most frequent first")
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.set_xlim(-0.7, len(rows) - 0.3)
    axes.set_ylabel("training positives")
    if 0 < counts.items <= ROOM * max((row.true for row in rows), default=0):
        axes.axhline(counts.items, color=INK, linestyle="--", linewidth=1.0, label="items")
    axes.legend(loc="center right")
    headline(figure, _finding(counts))
    return figure


def _finding(counts: ClassCounts) -> str:
    """The share of positives that are missing, and the class with the largest share."""
    data, share = plain(counts.data), counts.missing_share
    if share is None:
        return f"{data}: no class has a positive"
    if not share:
        return f"{data}: no positive is missing"
    most = max((row for row in counts.rows if row.true), key=lambda row: row.missing / row.true)
    return (
        f"{data}: {100 * share:.0f} % of the training positives are missing, most of "
        f"{plain(most.name)} ({100 * most.missing / most.true:.0f} %)"
    )
