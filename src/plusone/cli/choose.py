"""The command `choose`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.loading import load
from plusone.cli.printing import KEPT, Steps, emit, out, progress, resume_hint, say, table

if TYPE_CHECKING:
    from plusone.compare.choose import Choice
    from plusone.recipe import Recipe


RATES = (1e-2, 1e-3, 1e-4, 1e-5)
LISTED = 12  # candidates that are printed


def choose(
    data: opt.Data = "digits-features",
    names: Annotated[
        str | None,
        typer.Option(
            "--methods", "-m", help="Comma-separated; default: those that led on some data set."
        ),
    ] = None,
    lrs: Annotated[
        str | None,
        typer.Option("--lr", help="Learning rates, comma-separated; default 1e-2,1e-3,1e-4,1e-5."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="The score to choose by; see docs/selection.md.")
    ] = None,
    features: opt.Features = None,
    hints: opt.Hints = None,
    classes: opt.Classes = None,
    settings: opt.Set = None,
    device: opt.Device = None,
    rules: opt.Rules = None,
    backbone: opt.Backbone = None,
    epochs: opt.Epochs = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
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
    from plusone.compare.jobs import rate_grid
    from plusone.data.feature_store import features_folder
    from plusone.methods import CANDIDATES, get_method
    from plusone.recipe import make_recipe, parse_settings

    methods = opt.parts(names, str, "--methods") or list(CANDIDATES)
    rates = opt.parts(lrs, float, "--lr") or list(RATES)
    flags = {"backbone": backbone, "epochs": epochs, "select_by": by}
    given = {name: value for name, value in flags.items() if value is not None}
    given_settings = parse_settings(opt.with_device(settings, device)) | given | {"seed": seed}
    for name in methods:  # refused before anything is read
        get_method(name).make_options(make_recipe(given_settings, {"method": name}).options)
    dataset = load(data, features, form, meaning, hints=hints, classes=classes or "beside")
    facts = partial(facts_of, dataset) if opt.by_rules(rules, None) else None
    recipes = [
        compose(facts, given_settings, {"method": name, "mode": "linear"} | rate, name=data).recipe
        for name in methods
        for rate in rate_grid(rates, name)
    ]
    stages = [
        stage
        for recipe in recipes
        for stage in recipe.resolved_stages(
            images=True, phases=get_method(recipe.method).phases_of(recipe.options)
        )
    ]
    with resume_hint(KEPT), progress("training", None) as bar_and_task:
        steps = Steps(*bar_and_task)
        total, done = sum(stage.epochs for stage in stages), 0

        def on_epoch(count: int) -> None:
            nonlocal done
            done += count
            steps.to("training", done, total)

        choice = choose_among(
            dataset,
            recipes,
            on_epoch=on_epoch,
            on_extract=lambda count: steps.extracted(count, len(dataset.table)),
            features_folder=features_folder(),
        )
    words = _train_words(data, features or [], form, meaning, choice.best.recipe, given_settings)
    words += [] if hints is None else ["--hints", str(hints)]
    words += [] if classes is None else ["--classes", str(classes)]
    command = shlex.join(["plusone", "train", *words])
    if as_json:
        emit({"data": dataset.name, "command": command} | choice.to_dict())
        return
    _print_choice(choice, dataset.name)
    images = dataset.features is None or dataset.features.ndim == 4
    if images and choice.best.recipe.backbone in ("auto", "cnn"):
        say("the features come from random weights; those of a pretrained backbone are better")
    say(f"next: {command}")


def _train_words(
    data: str,
    features: Sequence[Path],
    form: str,
    meaning: str,
    best: Recipe,
    given_settings: Mapping[str, Any],
) -> list[str]:
    words = [data, *(word for path in features for word in ("-x", str(path)))]
    words += ["--format", form] if form != "auto" else []
    words += ["--labels", meaning] if meaning != "auto" else []
    words += ["-m", best.method, "--lr", f"{best.lr:g}", "--mode", "linear"]
    for name, value in given_settings.items():
        if name == "options":
            words += [word for key in value for word in ("-s", f"options.{key}={value[key]}")]
        elif name != "seed" or value:
            words += ["-s", f"{name}={value}"]
    return words


def _print_choice(choice: Choice, data: str) -> None:
    """The candidates, best first, and what they were ranked by."""
    rows = [
        (each.recipe.method, f"{each.recipe.lr:g}", each.epoch, f"{each.score:.4f}")
        for each in choice.candidates[:LISTED]
    ]
    out.print(table(f"{data}, best first", ("method", "lr", "epoch", choice.score), rows))
    if len(choice.candidates) > LISTED:
        say(f"and {len(choice.candidates) - LISTED} more; --json lists all")
    for recipe, why in choice.failed:
        say(f"left out: {recipe.method} with lr {recipe.lr:g}: {why}")
    best = choice.best
    say(
        f"chosen: {best.recipe.method}, lr {best.recipe.lr:g}, epoch {best.epoch}, by "
        f"{choice.score} on {choice.seen} seen labels of {choice.items} validation items"
    )
