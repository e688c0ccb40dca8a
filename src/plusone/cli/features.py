"""The command `features`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file
from plusone.cli.loading import load
from plusone.cli.printing import emit, progress, resume_hint, say


def features(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images, a pattern, a CSV with a column image, or data.",
        ),
    ],
    to: Annotated[Path, typer.Option("--out", "-o", help="The npz file to write.")],
    backbone: Annotated[str, typer.Option(help="cnn, lite0, lite1, lite2 or timm/NAME.")] = "lite0",
    size: Annotated[
        int | None, typer.Option(min=16, max=2048, help="Image side; the backbone's by default.")
    ] = None,
    aspect: Annotated[
        Literal["stretch", "crop"], typer.Option(help="stretch to a square, or crop the middle.")
    ] = "stretch",
    crops: Annotated[
        Literal["one", "five"],
        typer.Option(help="The whole image, or the mean of the whole and four tiles."),
    ] = "one",
    weights: Annotated[
        str, typer.Option(help="auto: the backbone's own; random; or a local file.")
    ] = "auto",
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Keep every place of the feature map (for lac).")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that decode images; by the cores by default."),
    ] = None,
    batch_size: opt.AtOnce = "auto",
    device: opt.Device = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    separator: opt.Separator = None,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
) -> None:
    """Extract features of all images once, for training in seconds afterwards.

    The images need no labels. A stopped extraction continues where it was.

    Example: [bold]plusone features photos --backbone lite0 --out photos.npz[/bold]
    """
    from plusone.data.broken import sentence, without_broken
    from plusone.data.feature_store import features_folder
    from plusone.features.extraction import extract_to_file
    from plusone.models.backbones import backbone_for
    from plusone.prediction.items import photos_of

    check_file(to)
    if weights == "random" or (weights == "auto" and not backbone_for(backbone).pretrained):
        say(f"note: {backbone} starts with random weights; its features carry little information")
    dataset = photos_of(data) if form == "auto" else None
    if dataset is None:
        dataset = load(data, None, form, meaning, separator=separator)
    else:
        with progress("checking images", len(dataset.table)) as (bar, task):
            dataset = without_broken(dataset, lambda done, _: bar.update(task, completed=done))
        if dataset.broken:
            say(sentence(dataset.broken))
    again = resume_hint("run the same command again to continue")
    with again, progress("extracting", len(dataset.table)) as (bar, task):
        result = extract_to_file(
            dataset,
            to,
            backbone,
            size,
            "auto" if workers is None else workers,
            lambda done: bar.update(task, completed=done),
            aspect=aspect,
            crops=crops,
            weights=weights,
            tokens=tokens,
            batch_size=opt.most_at_once(batch_size),
            device=device or "auto",
            folder=features_folder(),
        )
    if as_json:
        emit(result.to_json())
        return
    say(f"{result.items} items, {result.dim} features each, in {to}")
    say(f"next: plusone train {data} --features {to}")
