"""What commands read: the data, and a trained run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from plusone.cli import options as opt
from plusone.cli.printing import progress, say

if TYPE_CHECKING:
    from rich.progress import Progress

    from plusone.data.dataset import Dataset
    from plusone.prediction.load import Predictor


def load(
    data: str,
    features: list[Path] | None,
    form: str,
    meaning: str,
    *,
    hints: Path | None = None,
    separator: str | None = None,
    encoder: str | None = None,
    classes: Path | Literal["beside"] | None = "beside",
    check_images: bool = True,
    shown: tuple[Progress, Any] | None = None,
) -> Dataset:
    """Reads the data of a command, and prints which items were left out.

    Progress is shown on a bar of its own, or on the bar and task of `shown`.
    """
    from plusone.data.broken import sentence
    from plusone.data.source import load_source

    with nullcontext(shown) if shown else progress("reading", None) as (bar, task):

        def on_image(done: int, total: int) -> None:
            bar.update(task, description="checking images", completed=done, total=total)

        def on_text(done: int, total: int) -> None:
            bar.update(task, description="encoding texts", completed=done, total=total)

        dataset = load_source(
            data,
            features=features or (),
            hints=hints,
            format=form,
            labels=meaning,
            separator=separator,
            encoder=encoder,
            classes=classes,
            check_images=check_images,
            on_image=on_image,
            on_text=on_text,
        )
    if dataset.broken:
        say(sentence(dataset.broken))
    return dataset


def layers(
    recipe: Path | None, settings: Sequence[str], flags: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What the user set: by a recipe file, by `--set`, by flags (None: not given).

    The `cache_dir` of a file is left out, as a stranger may have written it.
    """
    from plusone.recipe import parse_settings, read_toml

    from_file = read_toml(recipe) if recipe else {}
    if from_file.pop("cache_dir", None) is not None:
        say(f"note: the cache_dir of {recipe} is left out; -s cache_dir=FOLDER names one")
    given = {name: value for name, value in flags.items() if value is not None}
    return from_file, parse_settings(settings), given


def given_settings(
    recipe: Path | None, settings: Sequence[str], flags: Mapping[str, Any]
) -> dict[str, Any]:
    """The `layers` in one, for commands that train many runs."""
    from plusone.compare.spec import merge_settings

    from_file, by_set, by_flags = layers(recipe, settings, flags)
    return {**merge_settings(from_file, by_set), **by_flags}


def dataset_of(
    run: Path,
    data: str | None,
    features: list[Path] | None,
    form: str,
    meaning: str,
    hints: Path | None = None,
) -> Any:
    """The data named on the command line, or the data the run was trained on."""
    from plusone.data.classes_file import parents_file
    from plusone.data.text_features import MADE_BY
    from plusone.prediction.run_folder import read_description, source_of

    encoder, classes = read_description(run).made_by.get(MADE_BY), parents_file(run)
    if data is not None:
        return load(data, features, form, meaning, hints=hints, encoder=encoder, classes=classes)
    source = source_of(run)
    return load(
        source.data,
        [Path(path) for path in source.features],
        source.format,
        source.labels,
        hints=hints or (Path(source.hints) if source.hints else None),
        separator=source.separator,
        encoder=source.encoder,
        classes=classes,
    )


def as_asked(
    predictor: Predictor, crops: Literal["one", "five"] | None, batch_size: str
) -> Predictor:
    """The model with the crops and the batch size of the command line."""
    predictor = replace(predictor, batch_size=opt.most_at_once(batch_size))
    trained = predictor.recipe.crops
    if crops is None or (predictor.images and crops == trained):
        return predictor
    if trained == "one" and crops == "five":
        say(
            "note: the model was trained on whole images and is shown five crops: that finds small "
            "things, and ranks worse where a class fills the image"
        )
    return predictor.with_crops(crops)


def warn_if_diverged(run: Path) -> None:
    """Prints a warning if a run stopped early."""
    from plusone.prediction.run_folder import divergence_warning as warning

    if (sentence := warning(run)) is not None:
        say(f"warning: {sentence}")
