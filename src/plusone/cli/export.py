"""The command `export`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_folder
from plusone.cli.printing import emit, progress, say


def export(
    run: Annotated[Path, typer.Argument(help="A run folder made by plusone train.")],
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write; default exports/RUN.")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Also write model.onnx, checked against torch.")
    ] = False,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Export a trained model into a folder to share, with a model card.

    The folder has the layout of Hugging Face: README.md (the card), config.json and
    model.safetensors. plusone predict works on it as on a run. Neither names of training items nor
    places on this machine are in it.

    Example: [bold]plusone export runs/photos-em-seed0 --onnx --out photos-model[/bold]
    """
    from plusone.export.publish import STEPS, check_out, export_run

    target = to or Path("exports") / run.resolve().name
    check_folder(target)
    check_out(target)
    with progress("export", len(STEPS)) as (bar, task):

        def on_step(step: str) -> None:
            bar.update(task, description=step, completed=STEPS.index(step))

        done = export_run(run, target, onnx=onnx, on_step=on_step)
    checked = done.onnx
    if as_json:
        emit(done.to_json())
    if checked is not None:
        kind = "items of the run's data" if checked.real else "random items (its data is gone)"
        say(
            f"model.onnx differs from torch by at most {checked.difference:.1g} "
            f"on {checked.items} {kind}"
        )
    say(f"model in {target}: {', '.join(done.files)}")
    say("the licence is yours to add, at the top of README.md")
    say(f"next: plusone predict {quote(str(target))} NEW_ITEMS --out tags.csv")
