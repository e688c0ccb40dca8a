"""Results: one table of methods per data set and mode, and all trainings as a CSV file."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Sequence

from plusone.compare.tables import options_text, percent, safe_cell, spread
from plusone.report.blocks import Block, Cell, Download, Section, Table
from plusone.report.material import Entry, Group, Material
from plusone.results import RunResult

TIDY = ("data", "method", "mode", "seed", "lr", "options", "val_map", "test_map", "best_epoch",
        "seconds")  # fmt: skip
NONE = Cell("–")
ALONE = "What one training reached, measured with the weights of the epoch that was kept."
COMPARED = (
    "One row per method, best first, with the settings that validation preferred. The best "
    "method is bold; methods marked = are within noise of it: closer than the least "
    "significant difference at 5 %, from the variance that neither method nor seed explains "
    "(with one seed, the test over classes decides). Columns can be sorted."
)
SEEN_ONLY = (
    "val mAP is measured against the seen labels alone: unobserved labels count as negative, so a "
    "model that recovers hidden positives is not rewarded. It ranks trainings; it does not say how "
    "often a prediction is right."
)


def results(material: Material) -> Section | None:
    """One table per data set and mode."""
    if not material.groups:
        return None
    blocks: list[Block] = [results_table(group) for group in material.groups]
    runs = [run for group in material.groups for entry in group.entries for run in entry.runs]
    if runs:
        count = f"{len(runs)} training{'' if len(runs) == 1 else 's'}"
        blocks.append(Download(f"{count} as CSV", "trainings.csv", _csv(runs)))
    alone = all(group.only is not None for group in material.groups)
    return Section("results", "Results", ALONE if alone else COMPARED, tuple(blocks))


def results_table(group: Group) -> Table:
    """The table of one group; columns without any value are left out."""
    ranked = group.ranked
    columns = {name: [cell(entry) for entry in ranked] for name, (_, cell) in COLUMNS.items()}
    same_seeds = len({entry.row.seeds for entry in ranked}) == 1
    shown = {
        name: cells
        for name, cells in columns.items()
        if any(cell != NONE for cell in cells) and not (name == "seeds" and same_seeds)
    }
    sources: dict[str, list[str]] = {}
    for entry in ranked:
        if entry.row.published is not None:
            sources.setdefault(str(entry.row.published_source), []).append(entry.method)
    return Table(
        group.name,
        tuple((name, COLUMNS[name][0]) for name in shown),
        tuple(zip(*shown.values(), strict=True)),
        notes=(
            *([f"Seeds: {ranked[0].row.seeds} each."] if same_seeds and not group.only else []),
            *([SEEN_ONLY] if _on_seen_labels(group.runs) else []),
            *(
                f"Published, {', '.join(names)}: {source}; ours have other features or backbones."
                for source, names in sources.items()
            ),
        ),
        quiet=frozenset(place for place, entry in enumerate(ranked) if entry.reference),
    )


def _on_seen_labels(runs: Sequence[RunResult]) -> bool:
    return bool(runs) and all(run.against == "seen" for run in runs)


def _test_map(entry: Entry) -> Cell:
    row = entry.row
    if row.test_map is None:
        return NONE
    mark = " =" if row.within_noise and not row.best else ""
    return Cell(spread(row.test_map, row.test_sd) + mark, row.test_map, strong=row.best)


def _number(value: float | None, form: Callable[[float], str]) -> Cell:
    return NONE if value is None else Cell(form(value), value)


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


COLUMNS: dict[str, tuple[str, Callable[[Entry], Cell]]] = {  # name: hint, and the cell of a row
    "method": (
        "its name in the method table",
        lambda entry: Cell(
            entry.method,
            strong=entry.row.best,
            hint="saw more labels" if entry.reference else "",
        ),
    ),
    "test mAP": ("mean ± standard deviation over seeds, in %", _test_map),
    "if negative": (
        "test mAP if all unknown test labels, which are left out beside, were negative, in %",
        lambda entry: _number(entry.row.if_negative, percent),
    ),
    "if positive": (
        "test mAP if all unknown test labels were positive, in %",
        lambda entry: _number(entry.row.if_positive, percent),
    ),
    "val mAP": (
        "on the validation items, in %",
        lambda entry: _number(entry.row.val_map, percent),
    ),
    "recovered": (
        "mAP on the training items against all their labels, hidden ones included, in %",
        lambda entry: _number(entry.row.recovery_map, percent),
    ),
    "gap closed": (
        "0 % is an (assume negative), 100 % is bce (all labels)",
        lambda entry: _number(entry.row.gap_closed, lambda value: f"{round(100 * value)}"),
    ),
    "published": (
        "published mAP for the same data, labels and mode, with a ResNet-50, in %",
        lambda entry: _number(entry.row.published, "{:g}".format),
    ),
    "p seeds": (
        "paired t-test over seeds against the best",
        lambda entry: _number(entry.row.p_seeds, _p),
    ),
    "p classes": (
        "Wilcoxon's signed-rank test over classes against the best",
        lambda entry: _number(entry.row.p_classes, _p),
    ),
    "seeds": ("number of trainings", lambda entry: _number(entry.row.seeds, "{:g}".format)),
    "seconds": (
        "mean training time of one seed",
        lambda entry: _number(entry.row.seconds, "{:.1f}".format),
    ),
    "lr": (
        "learning rate",
        lambda entry: _number(None if entry.solved else entry.row.lr, "{:g}".format),
    ),
    "options": (
        "options of the method that differ from its defaults",
        lambda entry: Cell(options_text(entry.row.options) or NONE.text),
    ),
}


def _csv(runs: Sequence[RunResult]) -> str:
    """Trainings as a data URI, one line each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, TIDY, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        line = run.model_dump(include=set(TIDY))
        line |= {name: safe_cell(line[name]) for name in ("data", "method", "mode")}
        writer.writerow(line | {"options": json.dumps(run.options, sort_keys=True)})
    code = base64.b64encode(text.getvalue().encode("utf-8")).decode("ascii")
    return f"data:text/csv;charset=utf-8;base64,{code}"
