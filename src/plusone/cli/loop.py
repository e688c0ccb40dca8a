"""The command `loop`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli.checks import check_folder
from plusone.cli.loading import load
from plusone.cli.options import (
    Data,
    Device,
    Features,
    Form,
    Json,
    Meaning,
    Plugin,
    Rules,
    Set,
    parts,
    with_device,
)
from plusone.cli.printing import command_line, emit, out, percent, progress, resume_hint, say, table

if TYPE_CHECKING:
    from plusone.data.dataset import Dataset
    from plusone.recipe import Recipe


def loop(
    context: typer.Context,
    data: Data = "digits-features",
    questions: Annotated[
        str, typer.Option(help="Numbers of questions to measure after, comma-separated.")
    ] = "500",
    orders: Annotated[
        str,
        typer.Option(help="worth, uncertain, frequent, balanced, likely, random, item."),
    ] = "worth,likely",
    method: Annotated[
        str | None,
        typer.Option("--method", "-m", help="A name in plusone methods; by the data by default."),
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate; by the data by default.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, comma-separated.")] = "0,1,2",
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-fitting.")] = 5,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("loop"),
    features: Features = None,
    backbone: Annotated[
        str, typer.Option(help="For images: what extracts their features, once.")
    ] = "lite0",
    settings: Set = None,
    device: Device = None,
    rules: Rules = True,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html too.")
    ] = True,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Annotated[int | None, typer.Option("--seed", help="One seed instead of --seeds.")] = None,
    as_json: Json = False,
    plugin: Plugin = None,
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
    from plusone.autorecipe import compose, facts_of
    from plusone.compare.loop import ANY, check, simulate, steps
    from plusone.compare.results_table import spread
    from plusone.io.files import write_json
    from plusone.recipe import make_recipe, parse_settings

    flags = {"method": method, "lr": lr}
    given: list[dict[str, Any]] = [
        {name: value for name, value in flags.items() if value is not None},
        parse_settings(with_device(settings, device)),
    ]
    make_recipe(*given, source="settings")  # refused before anything is read
    numbers = parts(questions, int, "--questions")
    names = parts(orders, str, "--orders")
    chosen = [seed] if seed is not None else parts(seeds, int, "--seeds")
    dataset = load(data, features, form, meaning)
    if dataset.features is None:
        trial = compose(None, *given, name=data).recipe
        check(dataset, trial, numbers, names, chosen)  # before features are extracted
        dataset = _with_features(dataset, to / "features.npz", backbone, trial)
        given[1].pop("crops", None)
    facts = partial(facts_of, dataset) if rules else None
    recipe = compose(facts, *given, name=data).recipe
    check(dataset, recipe, numbers, names, chosen)
    total = steps(numbers, names, chosen)
    again = resume_hint(f"run the same command again to continue ({to})")
    with again, progress("simulating", total) as (bar, task):
        result = simulate(
            dataset,
            recipe,
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
        from plusone.report.writing import write_report

        write_report([to / "loop.json"], to / "report.html")
    if as_json:
        emit(document)
    else:
        left = result.all_labels - result.before
        before = ("no questions", 0, None, spread(result.before, result.before_sd))
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
        same = ", same lr" if result.reference == "bce" else ""
        name, gain = f"all labels ({result.reference}{same})", f"{100 * left:+.2f}"
        first = (*before, None, None, None)
        end = (name, None, None, percent(result.all_labels), gain, None, None)
        columns = (
            "questions chosen by", "asked", "yes", "test mAP", "gain", "over random", "gap closed",
        )  # fmt: skip
        rate = "" if result.reference == result.method else f", lr {result.lr:g}"  # a closed form
        title = f"{result.method} on {result.data}{rate}, seeds: {len(chosen)}"
        out.print(table(title, columns, [first, *rows, end]))
    say(f"written: {to / 'loop.json'}{', ' + str(to / 'report.html') if report else ''}")


def _with_features(dataset: Dataset, path: Path, backbone: str, recipe: Recipe) -> Dataset:
    """The data with features of its images, extracted once into a file."""
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
        )
    return replace(dataset, features=align(read_features([path]), dataset.table))
