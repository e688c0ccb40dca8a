"""Many runs at once: a live table on a terminal, elsewhere a line per run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from plusone.cli.printing import err, is_watched, resume_hint, table
from plusone.io.files import alone_in, clear_leftovers
from plusone.io.text import percent

if TYPE_CHECKING:
    from plusone.compare.jobs import Job, JobResult


LINES_AROUND = 7  # lines of the live display around the rows of its table
Kind = tuple[str, str, str]  # data, method, mode


def run_shown(jobs: Sequence[Job], folder: Path, workers: int) -> list[JobResult]:
    """Runs the jobs that are not in the journal of `folder`; returns the results of all, in order.

    A terminal shows a live table; anything else gets a line per run.
    """
    from rich.live import Live

    from plusone.compare.jobs import run_jobs

    board = Board(jobs, workers)
    again = resume_hint(f"run the same command again to continue ({folder} keeps what is done)")
    live = is_watched()
    shown = Live(board, console=err, refresh_per_second=2, transient=True)

    def on_done(result: JobResult, before: bool) -> None:
        board.add(result)
        if not live:
            name = f"{result.data}  " if board.several else ""
            err.print(name + line_of(result, before), markup=False, soft_wrap=True)

    with again, alone_in(folder), shown if live else nullcontext():
        clear_leftovers(folder)
        return run_jobs(jobs, folder / "journal.jsonl", workers=workers, on_done=on_done)


def line_of(result: JobResult, before: bool) -> str:
    """A finished run in a line."""
    options = "".join(f"  {name} {value}" for name, value in result.options.items())
    return (
        f"{result.method:12s} seed {result.seed}  lr {result.lr:g}{options}  "
        f"val mAP {percent(result.val_map)}  {result.seconds:.1f} s"
        f"{'  (done before)' if before else ''}"
    )


class Board:
    """A table of what is done, and a bar with the time left."""

    def __init__(self, jobs: Sequence[Job], workers: int) -> None:
        self.workers = workers
        self.open: dict[str, Kind] = {
            job.key: (job.source.name, job.recipe.method, job.recipe.mode) for job in jobs
        }
        self.total = len(self.open)
        self.several = len({data for data, _, _ in self.open.values()}) > 1
        self.done: list[tuple[Kind, float]] = []
        self.rows: dict[Kind, list[JobResult]] = {kind: [] for kind in self.open.values()}
        self.expected = {kind: [*self.open.values()].count(kind) for kind in self.rows}
        self.touched = time.monotonic()

    def add(self, result: JobResult) -> None:
        """Adds a finished run."""
        kind = self.open.pop(result.key)
        self.done.append((kind, result.seconds))
        self.rows[kind] = [*self.rows.pop(kind), result]  # what changed last comes last
        self.touched = time.monotonic()

    def left(self) -> str:
        """The time left, in words."""
        seconds = seconds_left([*self.open.values()], self.done, self.workers)
        if seconds is None:
            return "time left: unknown yet"
        whole = round(max(0.0, seconds - (time.monotonic() - self.touched)))
        hours, minutes = whole // 3600, whole // 60 % 60
        return f"about {hours}:{minutes:02d}:{whole % 60:02d} left"

    def table(self, height: int) -> Table:
        """The rows that fit: those that changed last, then those not started."""
        begun = [kind for kind, results in reversed(self.rows.items()) if results]
        shown = [*begun, *(kind for kind, results in self.rows.items() if not results)]
        cells = []
        for kind in shown[: max(1, height - LINES_AROUND)]:
            results = self.rows[kind]
            best = max(results, key=lambda result: result.choice_score, default=None)
            cells.append(
                (
                    *kind[: 3 if self._modes() else 2],
                    f"{len(results)}/{self.expected[kind]}",
                    percent(best.val_map if best else None),
                    percent(best.test_map if best else None),
                )
            )
        names = ("data", "method", *(("mode",) if self._modes() else ()))
        more = len(shown) - len(cells)
        title = f"and {more} more rows" if more else ""
        return table(
            title, (*names, "done", "best val mAP", "its test mAP"), cells, text=len(names)
        )

    def _modes(self) -> bool:
        return len({mode for _, _, mode in self.rows}) > 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        count = self.total - len(self.open)
        bar = ProgressBar(total=max(1, self.total), completed=count, width=30)
        below = Table.grid(padding=(0, 1))
        below.add_row(bar, Text(f"{count} of {self.total} done, {self.left()}"))
        yield Group(self.table(console.height), below)


def seconds_left(
    open_jobs: Sequence[Kind], done: Sequence[tuple[Kind, float]], workers: int
) -> float | None:
    """An estimate in seconds; None before anything is done.

    A run is expected to take the mean time of those of its kind; if none is done yet, of those
    on the same data, and failing these of all.
    """
    if not done:
        return None
    by_kind: dict[Kind, list[float]] = {}
    by_data: dict[str, list[float]] = {}
    for kind, seconds in done:
        by_kind.setdefault(kind, []).append(seconds)
        by_data.setdefault(kind[0], []).append(seconds)
    every = [seconds for _, seconds in done]
    total = sum(fmean(by_kind.get(kind) or by_data.get(kind[0]) or every) for kind in open_jobs)
    return total / max(1, min(workers, len(open_jobs)))
