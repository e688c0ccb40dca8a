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
    check_folder,
    emit,
    going_on,
    load,
    out,
    percent,
    progress,
    say,
    table,
)
from plusone.errors import InputError

if TYPE_CHECKING:
    from plusone.engine.records import EpochRecord
    from plusone.types import Clock

IMAGES_ONLY = frozenset(
    {
        "backbone", "weights", "freeze", "freeze_norm", "precision", "image_size", "aspect",
        "cache_dir", "cache_mb",
    }
)  # fmt: skip
SELECTED = {"truth": "all", "observed": "the seen"}


def train(
    data: Data = "digits",
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="A name in plusone methods; default gr.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run folder; default runs/DATA-METHOD-seedN.")
    ] = None,
    features: Features = None,
    recipe: Annotated[
        Path | None, typer.Option("--recipe", "-r", help="TOML file with settings.")
    ] = None,
    settings: Set = None,
    mode: Annotated[
        str | None, typer.Option(help="linear, finetune or linear_init; by the data by default.")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="For images: cnn, lite0 or timm/NAME.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs; default 25 linear, 10 finetune.")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate; default 0.001.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Items per step; default 16.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of weights and batches; default 0.")
    ] = None,
    observe: Annotated[
        str | None,
        typer.Option(help="Where all labels are known: the scheme that hides some, or given."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    form: Form = "auto",
    meaning: Meaning = "auto",
    as_json: Json = False,
) -> None:
    """Train a multi-label model from one positive label per item.

    Where all labels are known, all but one positive per item are hidden first,
    as in the papers; partial labels are used as they are.

    Example: [bold]plusone train[/bold] (the embedded digits)
    Example: [bold]plusone train photos --method em[/bold] (a folder per class)
    Example: [bold]plusone train labels.csv -x photos.npz -m em -s options.alpha=0.2[/bold]
    """
    from plusone.data.source import DATA_DEFAULTS, EMBEDDED
    from plusone.engine.run import train as run
    from plusone.engine.task import expected_positives, make_task
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
    given = {key: value for key, value in flags.items() if value is not None}
    said = (read_toml(recipe) if recipe else {}, parse_settings(settings or []), given)
    where = str(recipe) if recipe else "settings"
    info = get_method(make_recipe(*said, source=where).method)
    full = make_recipe(DATA_DEFAULTS.get(data, {}), info.defaults, *said, source=where)
    info.make_options(full.options)
    folder = to or Path("runs") / f"{_name(data)}-{full.method}-seed{full.seed}"
    check_folder(folder)
    if (folder / "recipe.toml").exists() and not resume:
        raise InputError(
            f"{folder}: holds a run already; --resume goes on with it, or choose another --out"
        )
    with progress("reading", None) as (bar, reading):
        dataset = load(data, features, form, meaning)
        bar.update(reading, total=len(dataset.table))
        task = make_task(dataset, full, tick=lambda: bar.advance(reading))
    source = {
        "data": data if data in EMBEDDED else str(Path(data).resolve()),
        "features": [str(path.resolve()) for path in features or []],
        "format": form,
        "labels": meaning,
    }
    scheme = task.observation.get("scheme", "given")
    say(
        f"{task.name}: {len(task.train)} train, {len(task.val)} val, {len(task.test or ())} test "
        f"items, {len(task.classes)} classes; labels seen: {scheme}; method {full.method}"
    )
    if not task.images and (idle := sorted(IMAGES_ONLY & full.model_fields_set)):
        say(f"without effect on features: {', '.join(idle)}")
    if full.expected_positives is None and (k := expected_positives(full, task)) is not None:
        say(f"expected positives per item: {k:.3g}, counted on the validation items")
    stages = full.resolved_stages(images=task.images, phases=info.phases)
    steps = -(-len(task.train) // full.batch_size)
    total = steps * sum(stage.epochs for stage in stages)
    again = going_on(f"add --resume to the same command to go on ({folder})")
    with again, progress("training", total) as (bar, training):

        def on_step(clock: Clock) -> None:
            before = sum(stage.epochs for stage in stages[: clock.stage]) + clock.epoch
            bar.update(training, completed=before * steps + clock.step + 1)

        extracting = bar.add_task("extracting features", total=None, visible=False)
        items = len(task.train) + len(task.val) + len(task.test or ())

        def on_extract(done: int) -> None:
            bar.update(extracting, advance=done, total=items, visible=True)

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
            on_extract=on_extract,
            source=source,
        )
    if as_json:
        emit(metrics)
        return
    _print(metrics, task.name)


def _name(data: str) -> str:
    """What to call a run on this data: the file's name, or its folder's if it is just "labels"."""
    path = Path(data)
    name = path.resolve().parent.name if path.stem == "labels" else path.stem
    return name or "data"


def _print(metrics: dict[str, Any], data: str) -> None:
    """The result as a table, and what to do with it."""
    rows = [
        ("val mAP", percent(metrics["val_map"])),
        ("test mAP", percent(metrics["test_map"])),
        ("best epoch", metrics["best_epoch"]),
        ("chosen on", f"{SELECTED[metrics['selected_on']]} labels of the validation items"),
        ("seconds", f"{metrics['seconds']:.1f}"),
        ("run", metrics["run"]),
    ]
    if "recovery" in metrics:
        found = percent(metrics["recovery"]["recovery_map"])
        rows.insert(2, ("recovered", f"{found} (mAP of all labels of the training items)"))
    out.print(table(f"{metrics['method']} on {data}", ("result", ""), rows, text=2))
    split = " --split val" if metrics["test_map"] is None else ""
    say(f"next: plusone evaluate {metrics['run']}{split}")
    say(f"      plusone predict {metrics['run']} NEW_ITEMS --out tags.csv")
