"""The command `report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from plusone.cli.common import (
    Json,
    UnusedSeed,
    check_file,
    check_folder,
    emit,
    out,
    percent,
    progress,
    say,
    table,
)
from plusone.errors import InputError

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
            "--figures", help="Folder for PNG and SVG; default figures beside the report."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Heading of the report.")] = None,
    images: Annotated[
        bool,
        typer.Option(
            "--images/--no-images", help="Show images of items; not if they may not be passed on."
        ),
    ] = True,
    seed: UnusedSeed = 0,
    as_json: Json = False,
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
    check_file(target)
    if target.suffix.lower() == ".md":
        _markdown(places, target, as_json)
        return
    check_folder(figures or target.parent / "figures", flag="--figures")
    from plusone.report.build import write_report

    with progress("report", None) as (bar, task):

        def on_progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        write_report(
            places, target, title=title, figures=figures, images=images, on_progress=on_progress
        )
    found = find_runs(places)
    if as_json:
        emit({"runs": found, "report": str(target)})
    elif 0 < len(found) <= SHOWN:
        out.print(table("", COLUMNS, _rows(found), text=2))
        say("epoch: the best one on validation")
    say(f"report: {target}")


def _markdown(places: Sequence[Path], target: Path, as_json: bool) -> None:
    """The runs as a Markdown table."""
    from plusone.compare.tables import markdown
    from plusone.io.files import write_text

    found = find_runs(places)
    if not found:
        raise InputError(
            f"{', '.join(str(place) for place in places)}: holds no finished run; plusone train "
            "makes one, and --resume finishes one that was stopped"
        )
    write_text(target, markdown(COLUMNS, _rows(found)))
    if as_json:
        emit({"runs": found, "report": str(target)})
    say(f"{len(found)} runs in {target}")


def _rows(found: Sequence[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [
        (
            run["method"],
            run["data"],
            run["seed"],
            f"{run['lr']:g}",
            run["best_epoch"],
            percent(run["val_map"]),
            percent(run["test_map"]),
            f"{run['seconds']:.1f}",
        )
        for run in found
    ]


def find_runs(places: Sequence[Path]) -> list[dict[str, Any]]:
    """The results of all finished trainings at or below some folders, without copies."""
    from plusone.report.material import distinct, folders, journal_of
    from plusone.training.run_folder import read_metrics

    runs: list[dict[str, Any]] = []
    journals: list[dict[str, Any]] = []
    for folder in folders(places):
        if (folder / "metrics.json").exists():
            runs.append(read_metrics(folder).to_json())
        journals += journal_of(folder)
    return distinct(runs + journals)
