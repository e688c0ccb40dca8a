"""The tables of methods."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from plusone.compare.tables import options_text, percent, safe_cell, spread
from plusone.report.blocks import Block, Cell, Download, Section, Table
from plusone.report.material import Entry, Group, Material

TIDY = ("data", "method", "mode", "seed", "lr", "options", "val_map", "test_map", "best_epoch",
        "seconds")  # fmt: skip
COLUMNS = {
    "method": "its name in the method table",
    "test mAP": "mean ± standard deviation over seeds, in %",
    "val mAP": "on the validation items, in %",
    "recovered": "mAP on the training items against all their labels, hidden ones included, in %",
    "gap closed": "0 % is an (assume negative), 100 % is bce (all labels)",
    "published": "published mAP for the same data, labels and mode, with a ResNet-50, in %",
    "p seeds": "paired t-test over seeds against the best",
    "p classes": "Wilcoxon's signed-rank test over classes against the best",
    "seeds": "trainings behind the row",
    "seconds": "mean training time of one seed",
    "lr": "learning rate",
    "options": "options of the method that differ from its defaults",
}
SEEN_ONLY = (
    "val mAP is against the seen labels alone: what was not seen counts as absent, so a model that "
    "finds more is not rewarded. It compares trainings; how often one is right it does not tell."
)
HIDDEN_IF_EMPTY = ("test mAP", "recovered", "gap closed", "published", "p seeds", "p classes",
                   "options")  # fmt: skip


def results(material: Material) -> Section | None:
    """One table per data set and mode."""
    if not material.groups:
        return None
    blocks: list[Block] = [results_table(group) for group in material.groups]
    runs = [run for group in material.groups for entry in group.entries for run in entry.runs]
    if runs:
        count = f"{len(runs)} training{'' if len(runs) == 1 else 's'}"
        blocks.append(Download(f"{count} as CSV", "trainings.csv", _csv(runs)))
    return Section(
        "results",
        "Results",
        "One row per method, best first, with the settings that validation preferred. The best "
        "method is bold; methods marked = are within noise of it: closer than the least "
        "significant difference at 5 %, from the variance that neither method nor seed explains "
        "(with one seed, the test over classes decides). Columns can be sorted.",
        tuple(blocks),
    )


def results_table(group: Group) -> Table:
    """The table of one group."""
    ranked = group.ranked
    columns = {name: [_cell(name, entry) for entry in ranked] for name in COLUMNS}
    shown = {
        name: cells
        for name, cells in columns.items()
        if name not in HIDDEN_IF_EMPTY or any(cell.text != "–" for cell in cells)
    }
    counts = {entry.row.get("seeds") for entry in ranked}
    if len(counts) == 1:
        del shown["seeds"]
    sources: dict[str, list[str]] = {}
    for entry in ranked:
        if entry.row.get("published") is not None:
            sources.setdefault(str(entry.row["published_source"]), []).append(entry.method)
    return Table(
        group.name,
        tuple((name, COLUMNS[name]) for name in shown),
        tuple(zip(*shown.values(), strict=True)),
        notes=(
            *([f"Seeds: {counts.pop()} each."] if len(counts) == 1 else []),
            *([SEEN_ONLY] if _on_seen_labels(ranked) else []),
            *(
                f"Published, {', '.join(names)}: {source}; ours have other features or backbones."
                for source, names in sources.items()
            ),
        ),
        quiet=frozenset(place for place, entry in enumerate(ranked) if entry.reference),
    )


def _on_seen_labels(entries: Sequence[Entry]) -> bool:
    runs = [run for entry in entries for run in entry.runs]
    return bool(runs) and all(run.get("selected_on") == "observed" for run in runs)


def _cell(name: str, entry: Entry) -> Cell:
    row, best = entry.row, bool(entry.row.get("best"))
    if name == "method":
        return Cell(entry.method, strong=best, hint="saw more labels" if entry.reference else "")
    if name == "test mAP":
        if row.get("test_map") is None:
            return Cell("–")
        mark = " =" if row.get("within_noise") and not best else ""
        text = spread(row["test_map"], row.get("test_sd"))
        return Cell(text + mark, row["test_map"], strong=best)
    if name in ("val mAP", "recovered", "gap closed"):
        value = row.get({"val mAP": "val_map", "recovered": "recovery_map"}.get(name, "gap_closed"))
        if value is None:
            return Cell("–")
        return Cell(f"{round(100 * value)}" if name == "gap closed" else percent(value), value)
    if name in ("p seeds", "p classes"):
        return _p(row.get(name.replace(" ", "_")))
    if name == "options":
        return Cell(options_text(row.get("options") or {}) or "–")
    value = row.get(name)
    if value is None:
        return Cell("–")
    return Cell(f"{value:.1f}" if name == "seconds" else f"{value:g}", float(value))


def _p(value: float | None) -> Cell:
    if value is None:
        return Cell("–")
    return Cell("< 0.001" if value < 0.001 else f"{value:.3f}", value)


def _csv(runs: Sequence[dict[str, Any]]) -> str:
    """Trainings as a data URI, one line each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, TIDY, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for run in runs:
        words = {name: safe_cell(str(run.get(name, ""))) for name in ("data", "method", "mode")}
        options = json.dumps(run.get("options", {}), sort_keys=True)
        writer.writerow(run | words | {"options": options})
    code = base64.b64encode(text.getvalue().encode("utf-8")).decode("ascii")
    return f"data:text/csv;charset=utf-8;base64,{code}"
