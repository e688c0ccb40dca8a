"""The command `leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_folder
from plusone.cli.printing import emit, say


def leaderboard(
    places: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of plusone bench, your own or others', or folders that hold them.",
            metavar="FOLDER...",
        ),
    ],
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder of the page, index.html.")] = Path(
        "site"
    ),
    title: Annotated[str, typer.Option("--title", help="Heading of the page.")] = "Leaderboard",
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Write one page of methods x data sets x heads from comparisons.

    A figure has its 95 % interval over runs, what was searched, and the
    comparison it comes from with its command, version and seeds. Figures of
    different data, heads, protocols or observed labels are in columns of their
    own. The page needs no network.

    Example: [bold]plusone leaderboard bench others/bench --out site[/bold]
    """
    from plusone.report.leaderboard import half_interval, write_leaderboard

    check_folder(to)
    page, boards = write_leaderboard(places, to, title)
    if as_json:
        rows = [
            row.to_dict()
            | {"comparison": number, "half_interval": half_interval(row), "name": name}
            for board in boards
            for name, each in board.places.items()
            for number, row in each
        ]
        emit({"page": str(page), "rows": rows})
    say(f"leaderboard: {page}")
