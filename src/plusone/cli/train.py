"""The command `train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli.common import (
    Data,
    Features,
    Form,
    Json,
    Meaning,
    Set,
    emit,
    load,
    out,
    percent,
    progress,
    say,
    table,
)

if TYPE_CHECKING:
    from plusone.engine.training import EpochRecord
    from plusone.types import Clock


def register(app: typer.Typer) -> None:
    """Adds this command."""
    app.command()(train)


def train(
    data: Data = "digits",
    method: Annotated[str | None, typer.Option("--method", "-m", help="Name; default gr.")] = None,
    to: Annotated[Path | None, typer.Option("--out", "-o", help="Run folder.")] = None,
    features: Features = None,
    recipe: Annotated[
        Path | None, typer.Option("--recipe", "-r", help="TOML file with settings.")
    ] = None,
    settings: Set = None,
    mode: Annotated[
        str | None, typer.Option(help="linear, finetune or linear_init; by the data by default.")
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="cnn or lite0, for images.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Items per step.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights and batches.")] = None,
    observe: Annotated[
        str | None, typer.Option(help="Observation scheme where all labels are known.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    form: Form = "auto",
    meaning: Meaning = "auto",
    as_json: Json = False,
) -> None:
    """Train a multi-label model from one positive label per item.

    Where all labels are known, all but one positive per item are hidden first (the papers'
    protocol); partial labels are used as they are.

    Examples: [bold]plusone train[/bold] (the embedded digits),
    [bold]plusone train labels.csv --features photos.npz --method em -s options.alpha=0.2[/bold]
    """
    from plusone.data.source import DATA_DEFAULTS
    from plusone.engine.run import train as run
    from plusone.engine.task import make_task
    from plusone.engine.threads import use_suitable_threads
    from plusone.methods import get_method
    from plusone.recipe import make_recipe, parse_settings, read_toml

    flags: dict[str, Any] = {
        "method": method,
        "mode": mode,
        "backbone": backbone,
        "epochs": epochs,
        "lr": lr,
        "batch_size": batch_size,
        "seed": seed,
        "observe": observe,
    }
    said = make_layers(read_toml(recipe) if recipe else {}, parse_settings(settings or []), flags)
    chosen = make_recipe(*said).method
    full = make_recipe(
        DATA_DEFAULTS.get(data, {}), get_method(chosen).defaults, *said, source=str(recipe or "set")
    )
    folder = to or Path("runs") / f"{Path(data).stem or 'data'}-{full.method}-seed{full.seed}"
    with progress("reading", None) as (bar, reading):
        dataset = load(data, features, form, meaning)
        bar.update(reading, total=len(dataset.table))
        task = make_task(dataset, full, tick=lambda: bar.advance(reading))
    use_suitable_threads(task, full)
    source = {
        "data": str(Path(data).resolve()) if Path(data).exists() else data,
        "features": [str(path.resolve()) for path in features or []],
        "format": form,
        "labels": meaning,
    }
    scheme = task.observation.get("scheme", "given")
    say(
        f"{task.name}: {len(task.train)} train, {len(task.val)} val, {len(task.test or ())} test "
        f"items, {len(task.classes)} classes; labels seen: {scheme}; method {full.method}"
    )
    stages = full.resolved_stages(images=task.images)
    steps = -(-len(task.train) // full.batch_size)
    try:
        with progress("training", steps * sum(stage.epochs for stage in stages)) as (bar, training):

            def on_step(clock: Clock) -> None:
                before = sum(stage.epochs for stage in stages[: clock.stage]) + clock.epoch
                bar.update(training, completed=before * steps + clock.step + 1)

            def on_record(record: EpochRecord) -> None:
                best = " *" if record.best else ""
                bar.console.print(
                    f"stage {record.stage + 1} epoch {record.epoch:3d}  "
                    f"val mAP {percent(record.val_map)}{best}"
                )

            metrics = run(
                task,
                full,
                folder,
                resume=resume,
                on_record=on_record,
                on_step=on_step,
                source=source,
            )
    except KeyboardInterrupt:
        say(f"stopped; add --resume to the same command to go on ({folder})")
        raise
    if as_json:
        emit(metrics)
        return
    shown = ("val_map", "test_map", "best_epoch", "selected_on", "seconds", "run")
    rows = [(key, percent(metrics[key]) if "map" in key else metrics[key]) for key in shown]
    if "recovery" in metrics:
        rows.insert(
            2, ("recovery_map (training labels)", percent(metrics["recovery"]["recovery_map"]))
        )
    out.print(table(f"{metrics['method']} on {task.name}", ("result", ""), rows))


def make_layers(*layers: dict[str, Any]) -> list[dict[str, Any]]:
    """Settings the user gave, without those that were left out."""
    return [{key: value for key, value in layer.items() if value is not None} for layer in layers]
