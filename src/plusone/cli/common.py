"""What the commands share: options, messages, progress, and the meaning of exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rich.progress import Progress

    from plusone.data.dataset import Dataset

err = Console(stderr=True, highlight=False)
out = Console(highlight=False)

Data = Annotated[
    str,
    typer.Argument(
        help="digits, digits-features, or a path: CSV, folder per class, COCO JSON, VOC devkit, "
        "MULAN ARFF, npz, parquet.",
    ),
]
Features = Annotated[
    list[Path] | None,
    typer.Option("--features", "-x", help="Feature npz for the items (repeat for several files)."),
]
Form = Annotated[str, typer.Option("--format", help="Form of the labels; detected by default.")]
Meaning = Annotated[
    str,
    typer.Option("--labels", help="What 0 means: auto, seen (unobserved) or complete (negative)."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed; the same seed gives the same result.")]
UnusedSeed = Annotated[
    int, typer.Option("--seed", help="Accepted by every command; nothing here is random.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="Any recipe setting, name=value; options.NAME=VALUE too."),
]


def say(message: str) -> None:
    """Tells the person something; standard output stays free for results."""
    err.print(message, markup=False, soft_wrap=True)


def emit(value: Any) -> None:
    """Prints a result for machines: one JSON object on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


@contextmanager
def progress(description: str, total: int | None) -> Iterator[tuple[Progress, Any]]:
    """A progress bar on standard error; nothing where that is not a terminal."""
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
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as bar:
        yield bar, bar.add_task(description, total=total)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A table whose first column is text and whose other columns are figures."""
    grid = Table(title=title or None, title_justify="left", header_style="bold")
    for number, name in enumerate(columns):
        grid.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        grid.add_row(*(_cell(value) for value in row))
    return grid


def percent(value: float | None) -> str:
    """A share as per cent with two digits, or a dash."""
    return "-" if value is None else f"{100 * value:.2f}"


def load(data: str, features: list[Path] | None, form: str, meaning: str) -> Dataset:
    """Reads the data a command was given."""
    from plusone.data.source import load_source

    return load_source(data, features=features or (), format=form, labels=meaning)


def _cell(value: object) -> str:
    from rich.markup import escape

    return "-" if value is None else escape(str(value))
