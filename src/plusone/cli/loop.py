"""The command `loop`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_folder
from plusone.cli.comparison import report_shown
from plusone.cli.loading import layers, load
from plusone.cli.printing import command_line, emit, out, progress, resume_hint, say, table
from plusone.io.text import percent

if TYPE_CHECKING:
    from plusone.compare.documents import Loop
    from plusone.data.dataset import Dataset
    from plusone.recipe import Recipe


def loop(
    context: typer.Context,
    data: opt.Data = "digits-features",
    questions: Annotated[
        str, typer.Option(help="Numbers of questions to measure after, comma-separated.")
    ] = "500",
    orders: Annotated[
        str,
        typer.Option(help="worth, uncertain, frequent, balanced, likely, random, item."),
    ] = "worth,likely",
    method: opt.OneMethod = None,
    lr: opt.Rate = None,
    epochs: opt.Epochs = None,
    seeds: opt.Seeds = "0,1,2",
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-fitting.")] = 5,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("loop"),
    features: opt.Features = None,
    backbone: Annotated[
        str, typer.Option(help="For images: what extracts their features, once.")
    ] = "lite0",
    recipe: opt.RecipeFile = None,
    settings: opt.Set = None,
    device: opt.Device = None,
    rules: opt.Rules = None,
    report: opt.Report = True,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.OneSeed = None,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Measure how much a reviewer's answers improve a model, on fully labelled data.

    All labels but one per item are hidden. A model is trained and suggests the missing ones, the
    truth answers questions about them, and the model is trained again; beside it, the same
    number of random questions, and all labels: bce with the same learning rate, or the method
    itself if it has a closed form. Models on features. A stopped measurement can be continued,
    also with more questions.

    Example: [bold]plusone loop ucmerced/labels.csv --questions 100,500[/bold]
    """
    check_folder(to)
    from plusone import autorecipe
    from plusone.compare.loop import check, simulate, steps
    from plusone.data.source import EMBEDDED
    from plusone.io.files import write_json

    ruled = opt.by_rules(rules, recipe)
    flags = {"method": method, "lr": lr, "epochs": epochs}
    given = layers(recipe, opt.with_device(settings, device), flags)
    asked = autorecipe.check(*given, rules=ruled and data not in EMBEDDED)
    numbers = opt.parts(questions, int, "--questions")
    names = opt.parts(orders, str, "--orders")
    chosen = [seed] if seed is not None else opt.parts(seeds, int, "--seeds")
    dataset = load(data, features, form, meaning)
    if dataset.features is None:
        check(dataset, asked, numbers, names, chosen)  # before features are extracted
        dataset = _with_features(dataset, to / "features.npz", backbone, asked)
        for layer in given:
            layer.pop("crops", None)
    facts = partial(autorecipe.facts_of, dataset) if ruled else None
    full = autorecipe.compose(facts, *given, name=data).recipe
    check(dataset, full, numbers, names, chosen)
    total = steps(numbers, names, chosen)
    again = resume_hint(f"run the same command again to continue ({to})")
    with again, progress("simulating", total) as (bar, task):
        result = simulate(
            dataset,
            full,
            to,
            questions=numbers,
            orders=names,
            seeds=chosen,
            folds=folds,
            on_progress=lambda what: bar.update(task, advance=1, description=what),
        )
    command = command_line(context, ("as_json",))
    document = result.to_json() | {"command": command, "title": f"Answers on {result.data}"}
    write_json(to / "loop.json", document)
    if report:
        report_shown([to / "loop.json"], to / "report.html")
    if as_json:
        emit(document)
    else:
        _print(result, len(chosen))
    say(f"written: {to / 'loop.json'}{', ' + str(to / 'report.html') if report else ''}")


def _print(result: Loop, seeds: int) -> None:
    """A line before all questions, one per number and order of questions, one with all labels."""
    from plusone.compare.loop import ANY
    from plusone.compare.results_table import spread

    left = result.all_labels - result.before
    first = ("no questions", 0, None, spread(result.before, result.before_sd), None, None, None)
    rows = [
        (
            "random questions" if row.order == ANY else row.order,
            row.questions,
            f"{row.yes:.0f}",
            spread(row.test_map, row.test_sd),
            f"{100 * row.gain:+.2f}",
            None if row.over_random is None else f"{100 * row.over_random:+.2f}",
            f"{100 * row.gain / left:.0f} %" if left > 0 else None,
        )
        for row in result.rows
    ]
    closed = result.reference == result.method
    name = f"all labels ({result.reference}{'' if closed else ', same lr'})"
    end = (name, None, None, percent(result.all_labels), f"{100 * left:+.2f}", None, None)
    columns = (
        "questions chosen by", "asked", "yes", "test mAP", "gain", "over random", "gap closed",
    )  # fmt: skip
    title = f"{result.method} on {result.data}{'' if closed else f', lr {result.lr:g}'}"
    out.print(table(f"{title}, seeds: {seeds}", columns, [first, *rows, end]))


def _with_features(dataset: Dataset, path: Path, backbone: str, recipe: Recipe) -> Dataset:
    """The data with features of its images, extracted once into a file."""
    from plusone.data.feature_store import features_folder
    from plusone.data.features import align, read_features
    from plusone.features.extraction import extract_to_file

    again = resume_hint("run the same command again to continue")
    with again, progress("extracting features", len(dataset.table)) as (bar, task):
        extract_to_file(
            dataset,
            path,
            backbone,
            on_progress=lambda done: bar.update(task, completed=done),
            crops=recipe.crops,
            device=recipe.device,
            folder=features_folder(),
        )
    return replace(dataset, features=align(read_features([path]), dataset.table))
