"""The command `features`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file
from plusone.cli.loading import load
from plusone.cli.printing import emit, progress, resume_hint, say

if TYPE_CHECKING:
    from plusone.data.dataset import Dataset
    from plusone.features.extraction import Extraction


def features(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images, a pattern, a CSV with a column image, texts, or data.",
        ),
    ],
    to: Annotated[Path, typer.Option("--out", "-o", help="The npz file to write.")],
    backbone: Annotated[str, typer.Option(help="cnn, lite0, lite1, lite2 or timm/NAME.")] = "lite0",
    encoder: opt.Encoder = None,
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
    """Extract features of all images or texts once, for training in seconds afterwards.

    They need no labels. A stopped extraction continues where it was.

    Example: [bold]plusone features photos --backbone lite0 --out photos.npz[/bold]
    Example: [bold]plusone features texts.csv --encoder use --out texts.npz[/bold]
    """
    from plusone.data.broken import sentence, without_broken
    from plusone.data.feature_store import features_folder
    from plusone.data.text_encoder import AUTO
    from plusone.data.text_features import with_text_features
    from plusone.data.texts import texts_of
    from plusone.features.extraction import extract_to_file
    from plusone.models.backbones import backbone_for
    from plusone.prediction.items import photos_of

    check_file(to)
    if form == "auto" and (texts := texts_of(data)) is not None:
        with progress("encoding texts", len(texts.table)) as (bar, task):
            texts = with_text_features(
                texts, encoder or AUTO, lambda done, _: bar.update(task, completed=done)
            )
        if texts.broken:
            say(sentence(texts.broken))
        _write_texts(texts, to, data, as_json)
        return
    if weights == "random" or (weights == "auto" and not backbone_for(backbone).pretrained):
        say(f"note: {backbone} starts with random weights; its features carry little information")
    dataset = photos_of(data) if form == "auto" else None
    if dataset is None:
        dataset = load(data, None, form, meaning, separator=separator, encoder=encoder)
        if dataset.table.texts is not None:
            _write_texts(dataset, to, data, as_json)
            return
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
    _say_done(result, data)


def _write_texts(texts: Dataset, to: Path, data: str, as_json: bool) -> None:
    """Writes the vectors of texts, and says so."""
    from plusone.data.text_features import write_text_features
    from plusone.features.extraction import Extraction

    write_text_features(texts, to)
    assert texts.features is not None
    result = Extraction(to, len(texts.table), texts.features.shape[1], dict(texts.made_by))
    if as_json:
        emit(result.to_json())
        return
    _say_done(result, data)


def _say_done(result: Extraction, data: str) -> None:
    say(f"{result.items} items, {result.dim} features each, in {result.path}")
    say(f"next: plusone train {data} --features {result.path}")
