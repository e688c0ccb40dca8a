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
    emit,
    out,
    percent,
    say,
    table,
)
from plusone.errors import InputError


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders, bench folders, or folders that hold them."),
    ],
    to: Annotated[Path | None, typer.Option("--out", "-o", help="Markdown file.")] = None,
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Put finished runs into one table.

    Example: [bold]plusone report runs[/bold]
    """
    from plusone.bench.summary import markdown
    from plusone.files import write_text

    if to is not None:
        check_file(to)
    found = find_runs(runs)
    columns = ("method", "data", "seed", "lr", "epoch", "val mAP", "test mAP", "seconds")
    rows = [
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
    if to is not None:
        write_text(to, markdown(columns, rows))
        say(f"{len(rows)} runs in {to}")
    if as_json:
        emit({"runs": found})
    elif to is None:
        out.print(table("", columns, rows, text=2))
        say("epoch: the best one on validation")


def find_runs(places: Sequence[Path]) -> list[dict[str, Any]]:
    """The results of all finished trainings at or below some folders."""
    from plusone.bench.jobs import read_journal
    from plusone.engine.run_files import read_metrics

    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such folder")
    folders = sorted({file.parent for place in places for file in place.rglob("metrics.json")})
    journals = sorted({file for place in places for file in place.rglob("journal.jsonl")})
    found = [read_metrics(folder) for folder in folders]
    found += [result for journal in journals for result in read_journal(journal)]
    if not found:
        raise InputError(
            f"{', '.join(str(place) for place in places)}: holds no finished run; plusone train "
            "makes one, and --resume finishes one that was stopped"
        )
    return found
