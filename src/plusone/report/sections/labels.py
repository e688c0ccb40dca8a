"""Training labels: which were missing, and how well they were found again."""

from __future__ import annotations

from functools import partial

from plusone.analysis.counts import class_counts
from plusone.analysis.recovery import recovery_table
from plusone.bench.tables import spread
from plusone.report.blocks import Block, Cell, Drawing, Section, Table
from plusone.report.figures.counts import seen_and_missing
from plusone.report.material import Group, Material


def recovery(material: Material) -> Section | None:
    """How well the full training labels were found again (Cole et al. 2021, Table 2)."""
    tables = [table for group in material.groups if (table := _table(group)) is not None]
    if not tables:
        return None
    return Section(
        "recovery",
        "Hidden training labels found again",
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
        "method": [Cell(entry.method, strong=bool(entry.row.get("best"))) for entry, _ in rows],
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


def missing_positives(material: Material) -> Section | None:
    """Seen and missing positives per class (GR, Fig. 4)."""
    blocks: list[Block] = []
    done = set()
    for group in material.groups:
        runs = [run for entry in group.ranked if not entry.reference for run in entry.runs]
        known = [run for run in runs if run.get("labels")]
        if known and group.data not in done:
            done.add(group.data)
            draw = partial(seen_and_missing, class_counts(known[0]))
            blocks.append(Drawing(f"missing-{group.slug}", draw))
    if not blocks:
        return None
    return Section(
        "missing",
        "Seen and missing positives",
        "Positive labels of the training items per class: those that training saw, and those that "
        "were hidden from it (GR, Fig. 4).",
        tuple(blocks),
    )
