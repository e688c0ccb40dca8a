"""The end of a comparison: its files, its tables and its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plusone.cli.printing import emit, out, percent, progress, say, table
from plusone.errors import RunError

if TYPE_CHECKING:
    from plusone.compare.bench import Bench
    from plusone.compare.spec import BenchSpec
    from plusone.compare.summary import Row


NEAR = "= "  # before a figure that is within noise of the best
NARROW, WIDE = 80, 120  # widths of the terminal from which more columns are shown


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
    """Writes the results of a comparison and prints its tables.

    Args:
        bench: The comparison.
        spec: Its description.
        folder: The folder to write into.
        title: A line for reports.
        command: The command that repeats it.
        as_json: Print JSON instead of tables.
        report: Also write the report.
        titles: Data set -> a line above its tables.
    """
    from plusone.compare.tables import FILES, alone, write_outputs

    whole = write_outputs(
        folder, spec, bench.results, bench.summary, title=title, command=command, rule=bench.rule
    )
    if as_json:
        emit(whole)
    else:
        for (data, mode), rows in bench.summary.tables().items():
            seeds = max(row.seeds for row in rows)
            plain = f"{data}, {mode}, {seeds} seed{'s' if seeds > 1 else ''}"
            _print_table(rows, (titles or {}).get(data, plain))
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


def _print_table(rows: Sequence[Row], title: str) -> None:
    """Prints one table, with the columns that fit into the terminal."""
    from plusone.compare.summary import was_solved

    columns: dict[str, list[str]] = {
        "method": [row.method for row in rows],
        "test mAP": [NEAR * row.within_noise + percent(row.test_map) for row in rows],
        "sd": [percent(row.test_sd) for row in rows],
        "if negative": [percent(row.if_negative) for row in rows],
        "if positive": [percent(row.if_positive) for row in rows],
        "val mAP": [percent(row.val_map) for row in rows],
        "val score": [row.chosen_by for row in rows],
        "recovered": [percent(row.recovery_map) for row in rows],
        "gap closed": [
            "-" if row.gap_closed is None else f"{100 * row.gap_closed:.0f} %" for row in rows
        ],
        "published": [f"{row.published:g}" if row.published else "-" for row in rows],
        "lr": ["-" if was_solved(row.method, row.mode) else f"{row.lr:.3g}" for row in rows],
        "options": [_options(row.options) for row in rows],
        "seconds": [f"{row.seconds:.1f}" for row in rows],
    }
    shown = {name: cells for name, cells in columns.items() if _shown(name, rows)}
    grid = table(title, list(shown), list(zip(*shown.values(), strict=True)))
    for drawn, row in zip(grid.rows, rows, strict=True):
        drawn.style = "bold" if row.best else None
    out.print(grid)


def _options(options: Mapping[str, Any]) -> str:
    from plusone.compare.tables import options_text

    return options_text(options)


def _shown(column: str, rows: Sequence[Row]) -> bool:
    """Whether a column is shown: narrow terminals get the most important ones."""
    needed = {
        "sd": out.width >= NARROW and any(row.test_sd is not None for row in rows),
        "published": out.width >= WIDE and any(row.published is not None for row in rows),
        "options": out.width >= WIDE and any(row.options for row in rows),
        "val mAP": out.width >= NARROW,
        "val score": any(row.chosen_by != "-" for row in rows),
        "lr": out.width >= NARROW,
        "gap closed": any(row.gap_closed is not None for row in rows),
        "if negative": any(row.if_negative is not None for row in rows),
        "if positive": any(row.if_positive is not None for row in rows),
    }
    return needed.get(column, True)


def _print_legend(rows: Sequence[Row]) -> None:
    """Prints what the columns and marks mean."""
    from plusone.compare.tables import UNKNOWN

    if any(row.if_negative is not None for row in rows):
        say(UNKNOWN)
    say("recovered: mAP on the training items against all their labels, hidden ones included")
    if any(row.gap_closed is not None for row in rows):
        say("gap closed: 0 % is AN (unseen = negative), 100 % is training with all labels (bce)")
    near = f"; {NEAR}within noise of it" if any(row.within_noise for row in rows) else ""
    if any(row.best for row in rows):
        say(f"bold: the best that sees one positive per item{near}")


def write_report_of(folders: Sequence[Path], to: Path) -> None:
    """Writes the report of finished comparisons and says where it is."""
    from plusone.report.build import write_report

    with progress("report", None) as (bar, task):

        def on_progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"report: {what}", completed=done, total=total)

        try:
            place = write_report(folders, to, on_progress=on_progress)
        except Exception as error:  # hours of training must not be lost over a figure
            raise RunError(
                f"the results are written, but the report could not be ({type(error).__name__}: "
                f"{error}); plusone report {shlex.join(map(str, folders))} tries again"
            ) from error
    say(f"report: {place}")
