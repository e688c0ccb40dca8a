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
    items: Annotated[int, typer.Option(min=AUDITED, help="Items with one tag.")] = 1000,
    texts: Annotated[
        bool, typer.Option("--texts", help="Support tickets instead of pictures.")
    ] = False,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Make a folder of pictures, or texts, with one tag each, to try everything on.

    The pictures are drawn scenes: houses, trees, cars, birds. Each is in the folder of one thing
    that it shows, mostly a large one. Beside them: the tags as CSV, embeddings, an
    audit (all labels of a few pictures) and new pictures without tags. The texts are support
    tickets about one to four topics, in tables.

    Example: [bold]plusone example[/bold], then [bold]plusone train example/photos[/bold]
    Example: [bold]plusone example tickets --texts[/bold]
    """
    check_folder(folder)
    if texts:
        from plusone.data.tickets import write_tickets

        write_tickets(folder, items, audited=AUDITED, new=NEW, seed=seed)
    else:
        from plusone.data.example import write_example

        with progress("writing", items + NEW) as (bar, task):
            write_example(
                folder, items, audited=AUDITED, new=NEW, seed=seed, tick=lambda: bar.advance(task)
            )
    made = folder / ("tickets.csv" if texts else "photos")
    if as_json:
        emit({"out": str(folder), "items": items, "audited": AUDITED, "new": NEW})
        return
    say(f"{items} {'texts' if texts else 'pictures'} with one tag each in {made}")
    say(f"next: plusone train {made}")
