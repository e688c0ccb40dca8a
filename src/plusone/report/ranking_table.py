"""Results: one table of methods per data set and mode, and all runs as a CSV file."""

from __future__ import annotations

import base64

from plusone.compare.results_files import runs_csv
from plusone.compare.results_table import Column, published_sources, shown_columns, table_notes
from plusone.compare.rows import Row
from plusone.report.blocks import Block, Cell, Download, Note, Section, Table
from plusone.report.material import Group, Material

DOWNLOADED = ("data", "method", "mode", "seed", "lr", "options", "val_map", "test_map",
              "best_epoch", "seconds")  # fmt: skip
LISTED = 8  # kinds of runs that are left out
ALONE = "What one run reached, measured with the weights of the epoch that was kept."
COMPARED = (
    "One row per method, best first, with the settings that validation preferred. The best "
    "method is bold; methods marked = are within noise of it: closer than the least "
    "significant difference at 5 %, from the variance that neither method nor seed explains "
    "(with one seed, the test over classes decides). Columns can be sorted."
)
SEEN_ONLY = (
    "val mAP is measured against the seen labels alone: unobserved labels count as negative, so a "
    "model that recovers hidden positives is not rewarded. It ranks runs; it does not say how "
    "often a prediction is right."
)


def results(material: Material) -> Section:
    """One table per data set and mode."""
    blocks: list[Block] = [results_table(group) for group in material.groups]
    runs = [run for group in material.groups for entry in group.entries for run in entry.runs]
    if runs:
        count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        code = base64.b64encode(runs_csv(runs, (), DOWNLOADED).encode()).decode("ascii")
        uri = f"data:text/csv;charset=utf-8;base64,{code}"
        blocks.append(Download(f"{count} as CSV", "runs.csv", uri))
    if material.left_out:
        listed = "; ".join(material.left_out[:LISTED])
        more = len(material.left_out) - LISTED
        rest = f"; and {more} more (plusone report prints them)" if more > 0 else ""
        blocks.append(Note(f"Left out of the tables: {listed}{rest}."))
    alone = all(group.only is not None for group in material.groups)
    return Section("results", "Results", ALONE if alone else COMPARED, tuple(blocks))


def results_table(group: Group) -> Table:
    """The table of one group; columns without any value are left out."""
    rows = [entry.row for entry in group.ranked]
    same_seeds = len({row.seeds for row in rows}) == 1
    columns = [
        column
        for column in shown_columns(rows, "report")
        if not (column.field == "seeds" and same_seeds)
    ]
    sources = published_sources(rows)
    on_seen_labels = {run.against for run in group.runs} == {"seen"}
    return Table(
        group.name,
        tuple((column.heading, column.hint) for column in columns),
        tuple(tuple(_cell(column, row) for column in columns) for row in rows),
        notes=(
            *([f"Seeds: {rows[0].seeds} each."] if same_seeds and not group.only else []),
            *([SEEN_ONLY] if on_seen_labels else []),
            *(f"{note[0].upper()}{note[1:]}." for note in table_notes(rows)),
            *(
                f"Published, {', '.join(names)}: {source}; ours have other features or backbones."
                for source, names in sources.items()
            ),
        ),
        quiet=frozenset(place for place, row in enumerate(rows) if not row.competes),
    )


def _cell(column: Column, row: Row) -> Cell:
    value = column.value(row)
    if value is None:
        return Cell("–")
    reference = column.field == "method" and not row.competes
    return Cell(
        column.text(row, "report"),
        value if isinstance(value, (int, float)) else None,
        strong=row.best and column.field in ("method", row.ranked_by),
        hint="saw more labels" if reference else "",
    )
