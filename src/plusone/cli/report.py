"""The command `report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file, check_folder
from plusone.cli.comparison import report_shown
from plusone.cli.printing import emit, out, say, table
from plusone.errors import InputError
from plusone.io.files import refuse_links_out
from plusone.io.text import percent

if TYPE_CHECKING:
    from plusone.results import RunResult

COLUMNS = ("method", "data", "seed", "lr", "epoch", "val mAP", "test mAP", "seconds")
SHOWN = 40  # runs up to which the terminal lists each


def report(
    places: Annotated[
        list[Path],
        typer.Argument(
            help="Run, bench, sweep or ablation folders, or folders that hold them.",
            metavar="PLACE...",
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="HTML file, or .md for a plain table; default report.html in the first place.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures",
            help="Folder for PNG and SVG; default beside the report: figures, or NAME-figures.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Heading of the report.")] = None,
    images: Annotated[
        bool,
        typer.Option(
            "--images/--no-images", help="Show images of items; not if they may not be passed on."
        ),
    ] = True,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Write one HTML file with tables, learning curves and the papers' analyses.

    It needs no network, follows light and dark, and can be printed or sent.
    Figures are also saved as PNG and SVG.

    Example: [bold]plusone report bench[/bold] (writes bench/report.html)
    """
    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such folder")
    target = to or (places[0] if places[0].is_dir() else places[0].parent) / "report.html"
    if to is None:
        refuse_links_out(target.parent)
    check_file(target)
    if target.suffix.lower() == ".md":
        _markdown(places, target, as_json)
        return
    from plusone.report.material import collect, find_results
    from plusone.report.writing import figures_of

    check_folder(figures or figures_of(target), flag="--figures")

    report_shown(places, target, title=title, figures=figures, images=images)
    results = find_results(places)
    if as_json:
        emit({"runs": [result.to_json() for result in results], "report": str(target)})
    elif 0 < len(results) <= SHOWN:
        out.print(table("", COLUMNS, _rows(results), text=2))
        say("epoch: the best one on validation")
    for text in collect(places).left_out:
        say(f"left out: {text}")
    say(f"report: {target}")


def _markdown(places: Sequence[Path], target: Path, as_json: bool) -> None:
    from plusone.compare.results_table import markdown
    from plusone.io.files import write_text
    from plusone.report.material import find_results

    results = find_results(places)
    if not results:
        raise InputError(
            f"{', '.join(str(place) for place in places)}: holds no finished run; plusone train "
            "makes one, and --resume finishes one that was stopped"
        )
    write_text(target, markdown(COLUMNS, _rows(results)))
    if as_json:
        emit({"runs": [result.to_json() for result in results], "report": str(target)})
    say(f"{len(results)} runs in {target}")


def _rows(results: Sequence[RunResult]) -> list[tuple[object, ...]]:
    return [
        (
            result.method,
            result.data,
            result.seed,
            f"{result.lr:g}",
            result.best_epoch,
            percent(result.val_map),
            percent(result.test_map),
            f"{result.seconds:.1f}",
        )
        for result in results
    ]
