"""Commands that use a trained run: evaluate, predict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from plusone.cli.common import (
    Features,
    Form,
    Json,
    Meaning,
    Threshold,
    UnusedSeed,
    check_file,
    emit,
    load,
    out,
    progress,
    say,
    table,
)
from plusone.errors import InputError

COUNTS = ("items", "against")

Run = Annotated[Path, typer.Argument(help="A run folder made by plusone train.")]


def evaluate(
    run: Run,
    data: Annotated[str | None, typer.Argument(help="Data; the run's own by default.")] = None,
    split: Annotated[str, typer.Option(help="train, val, test or all.")] = "test",
    threshold: Threshold = 0.5,
    top_k: Annotated[int, typer.Option(min=1, help="Labels per item for the top-k figures.")] = 3,
    features: Features = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Measure a trained model on labelled data.

    Example: [bold]plusone evaluate runs/digits-gr-seed0[/bold]
    """
    from plusone.engine.build import load_run
    from plusone.engine.evaluation import check_split, evaluate_run

    check_split(split)
    predictor = load_run(run)
    dataset = dataset_of(run, data, features, form, meaning)
    with progress("predicting", None) as (bar, task):
        result = evaluate_run(
            predictor,
            dataset,
            split,
            threshold=threshold,
            top_k=top_k,
            tick=lambda done: bar.advance(task, done),
        )
    if as_json:
        emit({"run": str(run), "data": dataset.name, "split": split} | result)
        return
    rows = [
        (key, value if key in COUNTS else "-" if value is None else f"{value:.4f}")
        for key, value in result.items()
    ]
    out.print(table(f"{run} on {dataset.name} ({split})", ("metric", "value"), rows))


def predict(
    run: Run,
    data: Annotated[
        str, typer.Argument(help="An image, a folder of images, a data set, or a feature npz.")
    ],
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file; standard output by default.")
    ] = None,
    threshold: Threshold = 0.5,
    features: Features = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Predict labels and their probabilities for new items.

    Example: [bold]plusone predict runs/photos-gr-seed0 new-photos --out tags.csv[/bold]
    """
    from plusone.engine.build import load_run
    from plusone.engine.prediction import predict_items, to_csv
    from plusone.files import write_text

    if to is not None:
        check_file(to)
    predictor = load_run(run)
    with progress("predicting", None) as (bar, task):
        found = predict_items(
            predictor,
            data,
            features or [],
            form,
            meaning,
            tick=lambda done: bar.advance(task, done),
        )
    if to is not None:
        write_text(to, to_csv(found, threshold))
        say(f"{len(found.ids)} items in {to}")
    if as_json:
        emit(found.to_dict(threshold))
    elif to is None:
        out.file.write(to_csv(found, threshold))


def dataset_of(
    run: Path, data: str | None, features: list[Path] | None, form: str, meaning: str
) -> Any:
    """The data named on the command line, or the data the run was trained on."""
    from plusone.engine.run_files import read_description

    if data is not None:
        return load(data, features, form, meaning)
    source = read_description(run)["source"]
    if not {"data", "features", "format", "labels"} <= set(source):
        raise InputError(
            f"{run}: does not say which data it was trained on; name the data after the run"
        )
    return load(
        source["data"],
        [Path(path) for path in source["features"]],
        source["format"],
        source["labels"],
    )
