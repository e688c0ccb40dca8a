"""The command `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plusone.cli.bench_progress import run_shown
from plusone.cli.common import Json, Seed, check_folder
from plusone.cli.compared import finish
from plusone.cli.repeat import command_line

DEMO_METHODS = ("an", "an_ls", "wan", "epr", "em", "gr", "softmax", "bce")
TITLE = "Scenes of handwritten digits, one positive label per image"


def demo(
    context: typer.Context,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    workers: Annotated[int, typer.Option(min=1, help="Parallel trainings, one core each.")] = 2,
    seed: Seed = 0,
    as_json: Json = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html too.")
    ] = True,
) -> None:
    """Train eight methods on the embedded digits, one positive label per image, and compare.

    Example: [bold]plusone demo[/bold] (under three minutes on two cores)
    """
    check_folder(to)
    from plusone.compare.run import run_bench
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
