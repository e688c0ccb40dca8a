"""What commands print: messages, results, tables and progress."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from plusone.io.files import NO_ROOM
from plusone.io.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, Task


SEEN_ONLY = (
    "measured against the seen labels alone, these figures are too low: a label that is right, but "
    "that nobody gave, counts as wrong"
)
EXTRACTING = "extracting features"
BETWEEN_LINES = 30.0  # seconds
KEPT = "run the same command again to continue (the features extracted so far are kept)"
err = Console(stderr=True, highlight=False)
out = Console(highlight=False)


def say(message: str) -> None:
    """Prints a message on standard error; standard output is for results."""
    err.print(printable(message), markup=False, soft_wrap=True)


def emit(value: Any) -> None:
    """Prints a result for machines: one JSON object on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def is_watched() -> bool:
    """Whether standard error is a terminal; FORCE_COLOR, which notebooks set, asks for colours."""
    return err.is_interactive and err.file.isatty()


@contextmanager
def progress(description: str, total: int | None) -> Iterator[tuple[Progress, Any]]:
    """A progress bar on standard error; where that is no terminal, a line every half minute."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    watched = is_watched()
    bar = Progress(*columns, console=err, disable=not watched, transient=True)
    task = bar.add_task(description, total=total)
    with bar if watched else _lines(bar):  # rich before 15 would print an empty line
        yield bar, task


@contextmanager
def _lines(bar: Progress) -> Iterator[None]:
    """Prints where a progress bar that is not shown stands, every now and then."""
    over = Event()

    def look() -> None:
        before: tuple[object, ...] | None = None
        while not over.wait(BETWEEN_LINES):
            task = bar.tasks[0]
            if (now := (task.description, task.completed)) != before:
                say(_line(task))
            before = now

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _line(task: Task) -> str:
    """How far a step is, and how long it takes at its speed of the last half minute."""
    if not task.total or not task.completed:
        return f"{task.description} ..."
    left = "" if task.time_remaining is None else f", about {duration(task.time_remaining)} left"
    return f"{task.description}: {task.completed:,.0f} of {task.total:,.0f}{left}"


def duration(seconds: float) -> str:
    """Seconds in words that are short.

    >>> [duration(s) for s in (0.03, 0.3, 20, 90, 3000, 7000, 200_000)]
    ['under 0.1 s', '0.3 s', '20 s', '1.5 min', '50 min', '1.9 h', '2.3 days']
    """
    if seconds < 0.1:
        return "under 0.1 s"
    units = {"s": 1, "min": 60, "h": 3600, "days": 86400}
    unit = next((name for name, size in units.items() if seconds < 75 * size), "days")
    unit = "days" if unit == "h" and seconds > 48 * 3600 else unit
    count = seconds / units[unit]
    return f"{count:.{1 if count < 10 else 0}f} {unit}"


class Steps:
    """One progress bar that names the step it is at."""

    def __init__(self, bar: Progress, task: Any) -> None:
        self.bar, self.task, self.name = bar, task, ""
        self.done = 0

    def extracted(self, count: int, total: int) -> None:
        """Moves the bar by `count` of all images whose features are needed."""
        self.done = min(self.done + count, total)
        self.to(EXTRACTING, self.done, total)

    def to(self, name: str, completed: int, total: int | None) -> None:
        """Shows where a step is; another step begins anew."""
        if name != self.name:
            self.name = name
            self.bar.reset(self.task, total=total, completed=completed, description=name)
        self.bar.update(self.task, completed=completed, total=total)


@contextmanager
def resume_hint(how: str) -> Iterator[None]:
    """Prints how to continue if Ctrl-C or a full disk stops this block."""
    try:
        yield
    except (KeyboardInterrupt, OSError) as stop:
        if not isinstance(stop, OSError) or stop.errno in NO_ROOM:
            say(f"stopped; {how}")
        raise


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], text: int = 1
) -> Table:
    """A table whose first columns are text and whose other columns are figures.

    Args:
        title: A line above it, or "".
        columns: Their names, short: all of it should fit 80 columns.
        rows: What they hold; None is shown as a dash.
        text: How many columns are text.
    """
    from rich import box
    from rich.text import Text

    grid = Table(
        title=Text(printable(title)) if title else None,
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
    )
    for number, name in enumerate(columns):
        grid.add_column(name, justify="left" if number < text else "right")
    for row in rows:
        grid.add_row(*(Text("-" if value is None else printable(str(value))) for value in row))
    return grid


def command_line(context: typer.Context, leave_out: tuple[str, ...] = ()) -> str:
    """The command with all its arguments, as typed."""
    arguments: list[str] = []
    words: list[str] = []
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in leave_out or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            arguments += [str(part) for part in _several(value)]
        elif value is False:
            words.append(parameter.secondary_opts[0])
        elif value is True:
            words.append(parameter.opts[0])
        else:
            words += [word for part in _several(value) for word in (parameter.opts[0], str(part))]
    return shlex.join(["plusone", str(context.info_name), *arguments, *words])


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
