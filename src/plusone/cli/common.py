"""What the commands share: options, messages, progress, tables, checks of output paths."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from plusone.cli.processes import leads, printable
from plusone.errors import InputError
from plusone.io.files import NO_ROOM, naming, output_file

if TYPE_CHECKING:
    from rich.progress import Progress

    from plusone.data.dataset import Dataset


SEEN_ONLY = (
    "measured against the seen labels alone, these figures are too low: a label that is right, but "
    "that nobody gave, counts as wrong"
)
EXTRACTING = "extracting features"
KEPT = "run the same command again to continue (the features extracted so far are kept)"
TRIAL = 1 << 16  # bytes that are written to a folder as a test before any work is done

err = Console(stderr=True, highlight=False)
out = Console(highlight=False)

Data = Annotated[
    str,
    typer.Argument(
        help="digits, digits-features, or a path: CSV, folder per class, COCO JSON, VOC devkit, "
        "MULAN ARFF, npz, parquet, WebDataset tar files, Hugging Face datasets.",
    ),
]
Features = Annotated[
    list[Path] | None,
    typer.Option(
        "--features",
        "-x",
        metavar="FILE",
        help="Features of the items: npz, npy or parquet, a folder or a quoted pattern of "
        "them (repeat for several).",
    ),
]
Hints = Annotated[
    Path | None,
    typer.Option(
        "--hints",
        metavar="FILE",
        help="npz with scores of a zero-shot tagger or an older model (plusone hints).",
    ),
]
Form = Annotated[
    str,
    typer.Option(
        "--format",
        help="Form of the labels: csv-long, csv-wide, npz, parquet, voc, mulan, coco, folders; "
        "detected by default.",
    ),
]
Meaning = Annotated[
    str,
    typer.Option("--labels", help="What 0 means: auto, seen (unobserved) or complete (negative)."),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show details, by the names that papers use.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed; the same seed gives the same result.")]
UnusedSeed = Annotated[
    int, typer.Option("--seed", help="Accepted by every command; nothing here is random.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Any recipe setting, such as weight_decay=1e-4 or options.alpha=0.2 (repeatable).",
    ),
]

Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="What computes: auto (the accelerator that torch finds, else the CPU), cpu, cuda, "
        "cuda:1, mps or xpu.",
    ),
]

AtOnce = Annotated[
    str,
    typer.Option(
        "--batch-size",
        metavar="auto|N",
        help="Most images computed at once; auto: as many as fit, halved where they do not.",
    ),
]

Rules = Annotated[
    bool,
    typer.Option(
        "--rules/--no-rules",
        help="Choose what is not set by rules that look at the data, or leave the defaults.",
    ),
]


def most_at_once(batch_size: str) -> int | None:
    """The number of `--batch-size`; None for auto."""
    if batch_size == "auto":
        return None
    if not batch_size.isdecimal() or int(batch_size) < 1:
        raise InputError(f"--batch-size {batch_size}: must be auto or a whole number of at least 1")
    return int(batch_size)


def with_device(settings: list[str] | None, device: str | None) -> list[str]:
    """The texts of `--set`, with that of `--device` last."""
    return [*(settings or []), *([f"device={device}"] if device is not None else [])]


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
    watched = is_watched()
    bar = Progress(*columns, console=err, disable=not watched, transient=True)
    with bar if watched else nullcontext():  # rich before 15 would print an empty line
        yield bar, bar.add_task(description, total=total)


class Steps:
    """One progress bar that names the step it is at.

    Args:
        bar: The bar.
        task: Its task.
    """

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


def kept_features() -> Path:
    """Where commands without an output folder cache features of images: where training does.

    That is beside the runs: in the current folder, if there are some already, or below `runs`.
    """
    from plusone.features.extraction import FOLDER

    here = Path(FOLDER)
    return here if here.is_dir() else Path("runs") / FOLDER


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


def percent(value: float | None) -> str:
    """A share as per cent with two digits, or a dash."""
    return "-" if value is None else f"{100 * value:.2f}"


def load(
    data: str,
    features: list[Path] | None,
    form: str,
    meaning: str,
    *,
    hints: Path | None = None,
    check_images: bool = True,
    shown: tuple[Progress, Any] | None = None,
) -> Dataset:
    """Reads the data of a command, and prints which items were left out.

    Args:
        data: What the user named.
        features: Feature files.
        form: The form of the labels.
        meaning: What zeros mean.
        hints: A hint file.
        check_images: Whether items whose image cannot be read are left out.
        shown: A progress bar that is there already, and its task; a new one by default.
    """
    from plusone.data.broken import sentence
    from plusone.data.source import load_source

    with nullcontext(shown) if shown else progress("reading", None) as (bar, task):

        def on_image(done: int, total: int) -> None:
            bar.update(task, description="checking images", completed=done, total=total)

        dataset = load_source(
            data,
            features=features or (),
            hints=hints,
            format=form,
            labels=meaning,
            check_images=check_images,
            on_image=on_image,
        )
    if dataset.broken:
        say(sentence(dataset.broken))
    return dataset


def check_folder(path: Path, *, flag: str = "--out") -> None:
    """Refuses a folder that cannot be written, before any work is done for it."""
    if not leads():
        return
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise InputError(f"{place}: is a file, not a folder; choose another {flag}")
            if not os.access(place, os.W_OK | os.X_OK):
                raise InputError(f"{place}: cannot be written to; choose another {flag}")
            try:
                with naming(path), tempfile.TemporaryFile(dir=place) as trial:
                    trial.write(bytes(TRIAL))
            except OSError as error:
                if error.errno in NO_ROOM:
                    raise
                raise InputError(
                    f"{path}: cannot be written to ({error.strerror}); choose another {flag}"
                ) from None
            return


def check_file(path: Path, *, flag: str = "--out") -> None:
    """Refuses a file that cannot be written, before any work is done for it."""
    if not leads():
        return
    try:
        target = output_file(path)
    except InputError as error:
        raise InputError(str(error).replace("another output", f"another {flag}")) from None
    check_folder(target.parent, flag=flag)


def command_line(context: typer.Context, leave_out: tuple[str, ...] = ()) -> str:
    """The command with all its arguments, as typed.

    Args:
        context: Of the command that runs.
        leave_out: Names of parameters that change nothing in the result.
    """
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
