"""The command `hints`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file
from plusone.cli.loading import load
from plusone.cli.printing import emit, progress, resume_hint, say
from plusone.errors import InputError


def hints(
    data: opt.Data,
    to: Annotated[Path, typer.Option("--out", "-o", help="The npz file to write.")],
    model: Annotated[
        str,
        typer.Option(
            help="conse (from packages, no download), a CLIP or SigLIP model of transformers "
            "(folder or hub name), or open_clip:ARCHITECTURE/WEIGHTS."
        ),
    ] = "conse",
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            "--prompt",
            metavar="TEXT",
            help="Text of a class with {} for its name; several are averaged. By the model by "
            "default.",
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Of the softmax over classes; by the model by default.")
    ] = None,
    scores: Annotated[
        Literal["softmax", "sigmoid"],
        typer.Option(help="Over the classes, or each by itself (SigLIP)."),
    ] = "softmax",
    tiles: Annotated[
        int,
        typer.Option(min=0, max=8, help="Also look at this many tiles to a side (DAMP: 4)."),
    ] = 0,
    eta: Annotated[
        float, typer.Option(min=0, max=1, help="Above which the best tile decides, else the worst.")
    ] = 0.0,
    relations: Annotated[
        Path | None,
        typer.Option(help="npy file to write: similarities of the class names, for class_graph."),
    ] = None,
    features: opt.Features = None,
    device: opt.Device = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
) -> None:
    """Score all images for all classes with a model that knows texts.

    The result is a hint file for --hints. A stopped command continues where it was.
    conse also takes features of lite0 instead of images (-x), which takes seconds.

    Example: [bold]plusone hints photos --out hints.npz[/bold]
    Example: [bold]plusone hints photos --model openai/clip-vit-base-patch16 --tiles 4
    --out hints.npz[/bold]
    """
    from plusone.features.zero_shot_hints import HintSettings, make_hints

    for file in (to, relations):
        if file is not None:
            check_file(file)
    if temperature is not None and temperature <= 0:
        raise InputError(f"--temperature {temperature:g}: must be above 0")
    settings = HintSettings(model, tuple(prompts or ()), temperature, scores, tiles, eta)
    dataset = load(data, features, form, meaning)
    again = resume_hint("run the same command again to continue")
    with again, progress("scoring", len(dataset.table)) as (bar, task):
        about = make_hints(
            dataset,
            to,
            settings,
            device=device or "auto",
            on_progress=lambda done: bar.update(task, completed=done),
            relations=relations,
        )
    if as_json:
        sizes = {"items": len(dataset.table), "classes": len(dataset.table.classes)}
        emit({"out": str(to)} | sizes | about)
        return
    say(f"{len(dataset.table)} items, {len(dataset.table.classes)} classes in {to}")
    if relations is not None:
        say(f"for class_graph: --set options.relations={relations}")
    words = " ".join([data, *(f"-x {path}" for path in features or ()), f"--hints {to}"])
    say(f"next: plusone inspect {words}")
    say(f"      plusone train {words} -m gpr")
