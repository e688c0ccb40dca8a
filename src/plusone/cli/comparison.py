"""The end of a comparison: its files, its tables and its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plusone.cli.printing import emit, out, progress, say, table
from plusone.errors import RunError

if TYPE_CHECKING:
    from plusone.compare.bench import Bench
    from plusone.compare.rows import Row
    from plusone.compare.spec import BenchSpec


def finish(
    bench: Bench,
    spec: BenchSpec,
    folder: Path,
    *,
    title: str,
    command: str,
    as_json: bool,
    report: bool,
    titles: Mapping[str, str] | None = None,
) -> None:
    """Writes the results of a comparison and prints its tables."""
    from plusone.compare.results_files import FILES, alone, write_outputs
    from plusone.compare.results_table import cells_of, table_notes

    whole = write_outputs(
        folder,
        spec,
        bench.results,
        bench.summary,
        title=title,
        command=command,
        rule=bench.rule,
        remarks=bench.remarks,
    )
    if as_json:
        emit(whole)
    else:
        for (data, mode), rows in bench.summary.tables().items():
            seeds = max(row.seeds for row in rows)
            plain = f"{data}, {mode}, {seeds} seed{'s' if seeds > 1 else ''}"
            grid = table((titles or {}).get(data, plain), *cells_of(rows, "terminal", out.width))
            for drawn, row in zip(grid.rows, rows, strict=True):
                drawn.style = "bold" if row.best else None
            out.print(grid)
            for note in table_notes(rows):
                say(note)
        _print_legend(bench.summary.rows)
        say(f"settings: {bench.rule}")
    for data, count in {
        result.data: result.broken for result in bench.results if result.broken
    }.items():
        say(f"{data}: {count} items left out because their images cannot be read (plusone inspect)")
    if single := alone(bench.results):
        listed = ", ".join(f"{method} ({why})" for method, why in single.items())
        say(f"trained one by one: {listed}")
    say(f"written: {', '.join(str(folder / name) for name in FILES)}")
    if report:
        write_report_of([folder], folder / "report.html")


def _print_legend(rows: Sequence[Row]) -> None:
    from plusone.compare.results_table import EDGE, NEAR, UNKNOWN

    if any(row.if_negative is not None for row in rows):
        say(UNKNOWN)
    say("recovered: mAP on the training items against all their labels, hidden ones included")
    if any(row.gap_closed is not None for row in rows):
        say("gap closed: 0 % is AN (unseen = negative), 100 % is training with all labels (bce)")
    if any(row.at_edge for row in rows):
        say(f"{EDGE.strip()}: the lowest or the highest of the learning rates tried")
    near = f"; {NEAR}within noise of it" if any(row.within_noise for row in rows) else ""
    if any(row.best for row in rows):
        say(f"bold: the best that sees the observed labels{near}")


def write_report_of(folders: Sequence[Path], to: Path) -> None:
    """Writes the report of finished comparisons and says where it is."""
    try:
        say(f"report: {report_shown(folders, to)}")
    except Exception as error:  # hours of training must not be lost over a figure
        raise RunError(
            f"the results are written, but the report could not be ({type(error).__name__}: "
            f"{error}); plusone report {shlex.join(map(str, folders))} tries again"
        ) from error


def report_shown(places: Sequence[Path], to: Path, **options: Any) -> Path:
    """Writes a report with a progress bar; the options are those of `write_report`."""
    from plusone.report.writing import write_report

    with progress("report", None) as (bar, task):

        def on_progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"report: {what}", completed=done, total=total)

        return write_report(places, to, on_progress=on_progress, **options)
