"""The command `example`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_folder
from plusone.cli.printing import emit, progress, say

AUDITED = 100
NEW = 50


def example(
    folder: Annotated[Path, typer.Argument(help="Folder to make.")] = Path("example"),
    items: Annotated[int, typer.Option(min=AUDITED, help="Pictures with one tag.")] = 1000,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Make a folder of pictures with one tag each, to try everything on.

    The pictures are drawn scenes: houses, trees, cars, birds. Each is in the folder of one thing
    that it shows, mostly a large one. Beside them: the tags as CSV, embeddings, an
    audit (all labels of a few pictures) and new pictures without tags.

    Example: [bold]plusone example[/bold], then [bold]plusone train example/photos[/bold]
    """
    check_folder(folder)
    from plusone.data.example import write_example

    with progress("writing", items + NEW) as (bar, task):
        write_example(
            folder, items, audited=AUDITED, new=NEW, seed=seed, tick=lambda: bar.advance(task)
        )
    if as_json:
        emit({"out": str(folder), "items": items, "audited": AUDITED, "new": NEW})
        return
    say(f"{items} pictures with one tag each in {folder / 'photos'}")
    say(f"next: plusone train {folder / 'photos'}")
