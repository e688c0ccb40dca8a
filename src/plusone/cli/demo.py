"""The command `demo`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.board import run_shown
from plusone.cli.checks import check_folder
from plusone.cli.comparison import finish
from plusone.cli.printing import command_line, emit, out, progress, say, table
from plusone.io.text import percent

TITLE = "Scenes of handwritten digits, one positive label per image"


def demo(
    context: typer.Context,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    methods: Annotated[
        bool, typer.Option("--methods", help="Compare eight methods, images from scratch.")
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, help="Parallel runs of --methods, one core each.")
    ] = 2,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
    report: opt.Report = True,
) -> None:
    """Train a tagger on pictures with one tag each, and find the tags that are missing.

    The pictures are drawn scenes, whose labels are all known: so the demo can say
    how many of its suggestions are right.

    Example: [bold]plusone demo[/bold] (under two minutes on two cores)
    Example: [bold]plusone demo --methods[/bold] (eight methods, under three minutes)
    """
    check_folder(to)
    if methods:
        _compare(context, to, workers, seed, as_json=as_json, report=report)
        return
    from plusone.compare.demo import STEPS, run_demo

    with progress("demo", STEPS + 1) as (bar, task):
        result = run_demo(
            to, seed=seed, on_step=lambda name: bar.update(task, description=name, advance=1)
        )
    if report:
        from plusone.report.demo_page import write_demo

        write_demo(result, to / "report.html")
    if as_json:
        emit(result.to_dict() | {"out": str(to)})
        return
    rows = [(one.method, percent(one.test_map), percent(one.f1)) for one in result.trained]
    title = f"{result.new} test pictures, against all labels, %"
    out.print(table(title, ("method", "mAP", "F1"), rows))
    say(f"{result.trained[0].method} is the default; {result.trained[1].method} takes every tag "
        "that is not given as absent")  # fmt: skip
    say(result.sentence())
    if report:
        say(f"report with the best suggestions: {to / 'report.html'}")
    say(f"next: plusone review {quote(str(to / 'suggestions'))} (answer yes or no)")
    say("      plusone train YOUR-PHOTOS (a folder per tag, or a CSV with image,labels)")
    say("      plusone demo --methods (eight methods compared)")


def _compare(
    context: typer.Context, to: Path, workers: int, seed: int, *, as_json: bool, report: bool
) -> None:
    from plusone.compare.bench import run_bench
    from plusone.compare.spec import make_spec
    from plusone.methods import COMPARED

    values = {
        "data": [{"path": "digits"}],
        "methods": COMPARED,
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
