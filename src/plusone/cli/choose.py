"""The command `choose`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli.bench import parts
from plusone.cli.common import (
    Data,
    Features,
    Form,
    Json,
    Meaning,
    Rules,
    Seed,
    Set,
    emit,
    load,
    out,
    progress,
    say,
    table,
)

if TYPE_CHECKING:
    from plusone.compare.choose import Choice
    from plusone.recipe import Recipe

METHODS = ("gr", "em", "softmax", "wan", "hill", "en", "an")  # that trained best somewhere, and an
RATES = (1e-2, 1e-3, 1e-4, 1e-5)
SHOWN = 12


def choose(
    data: Data = "digits-features",
    names: Annotated[
        str | None,
        typer.Option("--methods", "-m", help=f"Comma-separated; default {','.join(METHODS)}."),
    ] = None,
    lrs: Annotated[
        str | None,
        typer.Option("--lr", help="Learning rates, comma-separated; default 1e-2,1e-3,1e-4,1e-5."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="The score to choose by; see docs/selection.md.")
    ] = None,
    features: Features = None,
    settings: Set = None,
    rules: Rules = True,
    backbone: Annotated[
        str | None, typer.Option(help="For images: cnn, lite0 or timm/NAME; lite0 if installed.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs; default 25.")] = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Choose method, learning rate and epoch by seen labels alone.

    Trains every candidate on a part of the items and ranks them by how well they
    place the seen labels of the others. No item needs all its labels; where they
    are known they are hidden first and never looked at. Images are turned into
    features once, and linear models are trained on these.

    Example: [bold]plusone choose labels.csv -x photos.npz[/bold]
    Example: [bold]plusone choose photos -m gr,em,an --lr 1e-3,1e-4 --epochs 10[/bold]
    """
    from plusone.autorecipe import compose, facts_of
    from plusone.compare.choose import choose as choose_among
    from plusone.methods import get_method
    from plusone.recipe import make_recipe, parse_settings

    methods = list(METHODS) if names is None else parts(names, str, "--methods")
    rates = list(RATES) if lrs is None else parts(lrs, float, "--lr")
    flags = {"backbone": backbone, "epochs": epochs, "select_by": by}
    given = {name: value for name, value in flags.items() if value is not None}
    said = parse_settings(settings or []) | given | {"seed": seed}
    for name in methods:  # refused before anything is read
        get_method(name).make_options(make_recipe(said, {"method": name}).options)
    dataset = load(data, features, form, meaning)
    facts = partial(facts_of, dataset) if rules else None
    recipes = [
        compose(facts, said, {"method": name, "mode": "linear", "lr": rate}, name=data).recipe
        for name in methods
        for rate in rates
    ]
    stages = [
        stage
        for recipe in recipes
        for stage in recipe.resolved_stages(images=True, phases=get_method(recipe.method).phases)
    ]
    with progress("training", sum(stage.epochs for stage in stages)) as (bar, task):
        extracting = bar.add_task("extracting features", total=None, visible=False)
        choice = choose_among(
            dataset,
            recipes,
            on_epoch=lambda count: bar.advance(task, count),
            on_extract=lambda done: bar.update(extracting, advance=done, visible=True),
        )
    words = _train_words(data, features or [], form, meaning, choice.best.recipe, said)
    command = shlex.join(["plusone", "train", *words])
    if as_json:
        emit({"data": dataset.name, "command": command} | choice.to_dict())
        return
    _print(choice, dataset.name)
    images = dataset.features is None or dataset.features.ndim == 4
    if images and choice.best.recipe.backbone in ("auto", "cnn"):
        say("the features are of a network with random weights; a pretrained one tells more")
    say(f"next: {command}")


def _train_words(
    data: str,
    features: Sequence[Path],
    form: str,
    meaning: str,
    best: Recipe,
    said: Mapping[str, Any],
) -> list[str]:
    """What comes after `plusone train` for the winner."""
    words = [data, *(word for path in features for word in ("-x", str(path)))]
    words += ["--format", form] if form != "auto" else []
    words += ["--labels", meaning] if meaning != "auto" else []
    words += ["-m", best.method, "--lr", f"{best.lr:g}", "--mode", "linear"]
    for name, value in said.items():
        if name == "options":
            words += [word for key in value for word in ("-s", f"options.{key}={value[key]}")]
        elif name != "seed" or value:
            words += ["-s", f"{name}={value}"]
    return words


def _print(choice: Choice, data: str) -> None:
    """The candidates, best first, and what they were ranked by."""
    rows = [
        (each.recipe.method, f"{each.recipe.lr:g}", each.epoch, f"{each.score:.4f}")
        for each in choice.candidates[:SHOWN]
    ]
    out.print(table(f"{data}, best first", ("method", "lr", "epoch", choice.score), rows))
    if len(choice.candidates) > SHOWN:
        say(f"and {len(choice.candidates) - SHOWN} more; --json lists all")
    for recipe, why in choice.failed:
        say(f"left out: {recipe.method} with lr {recipe.lr:g}: {why}")
    best = choice.best
    say(
        f"chosen: {best.recipe.method}, lr {best.recipe.lr:g}, epoch {best.epoch}, by "
        f"{choice.score} on {choice.seen} seen labels of {choice.items} validation items"
    )
