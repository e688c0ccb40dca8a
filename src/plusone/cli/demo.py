"""The command `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plusone.cli.bench import DEMO_METHODS
from plusone.cli.board import run_shown
from plusone.cli.checks import check_folder
from plusone.cli.comparison import finish
from plusone.cli.options import Json, Seed
from plusone.cli.printing import command_line

TITLE = "Scenes of handwritten digits, one positive label per image"


def demo(
    context: typer.Context,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    workers: Annotated[int, typer.Option(min=1, help="Parallel runs, one core each.")] = 2,
    seed: Seed = 0,
    as_json: Json = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html too.")
    ] = True,
) -> None:
    """Train and compare eight methods on the embedded digits with one positive label per image.

    Example: [bold]plusone demo[/bold] (under three minutes on two cores)
    """
    check_folder(to)
    from plusone.compare.bench import run_bench
    from plusone.compare.spec import make_spec

    values = {
        "data": [{"path": "digits"}],
        "methods": DEMO_METHODS,
        "seeds": [seed],
        "settings": {"probe": "on"},
        "workers": workers,
    }
    spec = make_spec(values, source="demo")
    bench = run_bench(spec, to, lambda jobs: run_shown(jobs, to, workers))
    finish(
        bench,
        spec,
        to,
        title=TITLE,
        titles={"digits": TITLE},
        command=command_line(context, ("as_json", "workers")),
        as_json=as_json,
        report=report,
    )
