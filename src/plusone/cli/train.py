"""The command `train`."""

from __future__ import annotations

import dataclasses
import re
import time
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli.checks import check_folder
from plusone.cli.loading import load
from plusone.cli.options import (
    Data,
    Device,
    Features,
    Form,
    Hints,
    Json,
    Meaning,
    Plugin,
    Set,
    Verbose,
    with_device,
)
from plusone.cli.printing import (
    KEPT,
    SEEN_ONLY,
    Steps,
    emit,
    out,
    percent,
    progress,
    resume_hint,
    say,
    table,
)
from plusone.cli.processes import leads
from plusone.errors import InputError
from plusone.extras import install_command
from plusone.io.files import alone_in

if TYPE_CHECKING:
    from plusone.inputs.task import Task
    from plusone.recipe import Recipe
    from plusone.results import EpochRecord, RunResult
    from plusone.types import Clock


IMAGES_ONLY = frozenset(
    {
        "backbone", "weights", "freeze", "freeze_norm", "precision", "image_size", "aspect",
        "cache_dir", "cache_mb", "accumulate", "checkpoint_activations",
    }
)  # fmt: skip
STEPS_ONLY = frozenset(
    {
        "epochs", "lr", "batch_size", "optimizer", "weight_decay", "head_lr_mult", "schedule",
        "patience", "ema", "clip",
    }
)  # fmt: skip
BETWEEN_MOVES = 0.1  # seconds between two updates of the progress bar
NAMED = 5  # classes without a seen positive that are named
K_FROM = {
    "validation": "counted on the validation items",
    "estimated": "estimated from the seen labels (plusone priors tells more)",
}


def train(
    data: Data = "digits",
    method: Annotated[
        str | None,
        typer.Option("--method", "-m", help="A name in plusone methods; by the data by default."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run folder; default runs/DATA-METHOD-seedN.")
    ] = None,
    features: Features = None,
    hints: Hints = None,
    recipe: Annotated[
        Path | None, typer.Option("--recipe", "-r", help="TOML file with settings.")
    ] = None,
    settings: Set = None,
    device: Device = None,
    mode: Annotated[
        str | None, typer.Option(help="linear, finetune or linear_init; by the data by default.")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="For images: cnn, lite0, lite1, lite2 or timm/NAME; lite0 if installed."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs; 25 linear, 10 or more finetune.")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate; by the data by default.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Items per step; by the data by default.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of weights and batches; default 0.")
    ] = None,
    observe: Annotated[
        str | None,
        typer.Option(help="Where all labels are known: the scheme that hides some, or given."),
    ] = None,
    rules: Annotated[
        bool | None,
        typer.Option(
            "--rules/--no-rules",
            help="Choose what is not set by rules that look at the data; by default unless there "
            "is a recipe file.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a stopped run.")] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(
            "--track",
            metavar="NAME",
            help="Send the figures to tensorboard, mlflow or wandb too (repeatable).",
        ),
    ] = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    report: Annotated[
        bool | None,
        typer.Option(
            "--report/--no-report", help="Write RUN/report.html; by default unless --json."
        ),
    ] = None,
    verbose: Verbose = False,
    as_json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Train a multi-label model from one positive label per item.

    What you do not set is chosen by rules that look at the data; each says why. A recipe file
    describes a training in full and switches them off; the embedded digits have fixed settings.
    Where all labels are known, all but one positive per item are hidden first,
    as in the papers; partial labels are used as they are. Unknown test labels are left out of the
    figures; mAP if all were negative, and if all were positive, is shown beside.

    Example: [bold]plusone train photos[/bold] (a folder per class, or a folder with labels.csv)
    Example: [bold]plusone train labels.csv -x photos.npz -m em -s options.alpha=0.2[/bold]
    Example: [bold]plusone train[/bold] (the embedded digits)
    """
    from plusone.autorecipe import compose, facts_of
    from plusone.build import in_closed_form
    from plusone.data.broken import write_broken
    from plusone.data.source import EMBEDDED
    from plusone.device import describe, resolve
    from plusone.features.extraction import FOLDER
    from plusone.inputs.task import make_task
    from plusone.methods import get_method
    from plusone.recipe import make_recipe, parse_settings, read_toml
    from plusone.training.expected import expected
    from plusone.training.rates import pick_rate, with_rate
    from plusone.training.run import train as run
    from plusone.training.tracking import make_listeners
    from plusone.training.trainer import compiler_problem

    listeners = make_listeners(track or ())
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
    from_file = read_toml(recipe) if recipe else {}
    if from_file.pop("cache_dir", None) is not None:
        say(f"note: the cache_dir of {recipe} is left out; -s cache_dir=FOLDER names one")
    given = (
        from_file,
        parse_settings(with_device(settings, device)),
        {key: value for key, value in flags.items() if value is not None},
    )
    where = str(recipe) if recipe else "settings"
    requested = make_recipe(*given, source=where)
    _check_options(requested, any("method" in layer for layer in given))  # before data is read
    resolve(requested.device)
    if to is not None:
        _check_new(to, resume)
    with progress("reading", None) as (bar, reading):
        dataset = load(data, features, form, meaning, hints=hints, shown=(bar, reading))
        by_rules = recipe is None if rules is None else rules
        facts = partial(facts_of, dataset) if by_rules else None
        composed = compose(facts, *given, name=data, source=where)
        full = composed.recipe
        folder = to or Path("runs") / f"{_name(data)}-{full.method}-seed{full.seed}"
        _check_new(folder, resume)
        bar.update(reading, description="reading", completed=0, total=len(dataset.table))
        task = make_task(dataset, full, tick=lambda: bar.advance(reading))
    sentences, picked = composed.rules, None
    features_folder = folder.parent / FOLDER if task.images else None
    if "lr" in composed.chosen:
        with resume_hint(KEPT), progress("trying learning rates", None) as bar_and_task:
            steps = Steps(*bar_and_task)
            picked = pick_rate(
                task,
                full,
                lambda epoch: steps.to("trying learning rates", epoch, full.epochs),
                tick=partial(steps.extracted, total=len(task.train) + len(task.val)),
                folder=features_folder,
            )
        if picked is not None:
            full, sentences = picked.training.recipe, with_rate(sentences, picked.why)
    source = {
        "data": data if data in EMBEDDED else str(Path(data).resolve()),
        "features": [str(path.resolve()) for path in features or []],
        **({} if hints is None else {"hints": str(hints.resolve())}),
        "format": form,
        "labels": meaning,
    }
    say(
        f"{task.name}: {len(task.train)} items for training, {len(task.val)} for validation, "
        f"{len(task.test or ())} for testing; {len(task.classes)} classes; method {full.method}"
    )
    if (scheme := task.observation.get("scheme", "given")) != "given":
        say(f"labels of the training items were hidden (observation scheme {scheme})")
    for note in (*(f"note: {text}" for text in dataset.table.notes), *notes(task)):
        say(note)
    for sentence in sentences:
        say(f"rule: {sentence}")
    if not task.images and (idle := sorted(IMAGES_ONLY & full.model_fields_set)):
        say(f"without effect on features: {', '.join(idle)}")
    closed = in_closed_form(full, images=task.images)
    asked = {key for layer in given for key in layer}
    if closed and (idle := sorted(STEPS_ONLY & asked)):
        say(f"without effect on a closed form: {', '.join(idle)}")
    say(f"device: {describe(resolve(full.device))}")
    if full.compile and (problem := compiler_problem(full.device)) is not None:
        say(problem)
    items = len(task.train) + len(task.val) + len(task.test or ())
    with resume_hint(KEPT), progress("estimating labels per item", None) as bar_and_task:
        extracted = Steps(*bar_and_task)
        k = expected(full, task, features_folder, partial(extracted.extracted, total=items))
    if k.source in K_FROM:
        say(f"labels per item: about {k.k:.3g}, {K_FROM[k.source]}")
    stages = full.resolved_stages(images=task.images, phases=get_method(full.method).phases)
    per_epoch = -(-len(task.train) // full.batch_size)
    total = per_epoch * sum(stage.epochs for stage in stages)
    again = resume_hint(f"add --resume to the same command to continue ({folder})")
    with again, alone_in(folder), progress("training", None) as bar_and_task:
        if leads():
            write_broken(folder, dataset.broken)
        steps = Steps(*bar_and_task)
        steps.done = extracted.done

        shown = 0.0  # when the bar last moved

        def on_step(clock: Clock) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown < BETWEEN_MOVES and clock.step + 1 < clock.steps:
                return  # a step on features takes less time than an update of the bar
            shown = now
            before = sum(stage.epochs for stage in stages[: clock.stage]) + clock.epoch
            steps.to("training", before * per_epoch + clock.step + 1, None if closed else total)

        def on_extract(count: int) -> None:
            steps.extracted(count, items)
            if steps.done == items:
                steps.to("training", 0, None if closed else total)

        def on_record(record: EpochRecord) -> None:
            if closed and not verbose:
                return  # there is one, and the table at the end shows its figures
            where = f"stage {record.stage + 1} of {len(stages)}, " if len(stages) > 1 else ""
            where += f"epoch {record.epoch:3d}"
            figures = _decisive(record.selected_by, record.val_score, verbose)
            figures += ", the best so far" if record.best else ""
            if verbose and record.selected_by != "map":
                figures += f" (val mAP {percent(record.val_map)})"
            say(f"{where}: {figures}")

        result = run(
            task,
            full,
            folder,
            resume=resume,
            on_record=on_record,
            on_step=on_step,
            on_extract=on_extract,
            source=source,
            rules=sentences,
            features=features_folder,
            listeners=listeners,
            picked=picked,
        )
    if leads() and (report if report is not None else not as_json):
        _report(folder)
    if as_json:
        emit(result.to_json() | ({"broken": len(dataset.broken)} if dataset.broken else {}))
        return
    _print(result, task.name, closed=closed, verbose=verbose)


def _check_options(recipe: Recipe, named: bool) -> None:
    """Refuses options that the method does not have, and says whose they may be.

    Args:
        recipe: The settings.
        named: Whether the user named the method; options without one are those of the default.
    """
    from plusone.methods import METHODS, get_method

    try:
        get_method(recipe.method).make_options(recipe.options)
    except InputError as error:
        options = {
            name: {f.name for f in dataclasses.fields(m.options)} for name, m in METHODS.items()
        }
        known = sorted({option for names in options.values() for option in names})
        unknown = [name for name in recipe.options if name not in options[recipe.method]]
        near = get_close_matches(unknown[0], known, n=1) if unknown and not named else []
        if not near:
            raise
        others = ", ".join(name for name, names in options.items() if near[0] in names)
        raise InputError(
            f"{error}; without -m METHOD, options are those of {recipe.method} ({near[0]} is an "
            f"option of {others})"
        ) from None


def _check_new(folder: Path, resume: bool) -> None:
    """Refuses a run folder that cannot be written, or that holds a run already."""
    check_folder(folder)
    if leads() and (folder / "recipe.toml").exists() and not resume:
        raise InputError(
            f"{folder}: holds a run already; --resume continues it, or choose another --out"
        )


def _report(folder: Path) -> None:
    """Writes the report of one run into its folder."""
    from importlib.util import find_spec

    from plusone.report.writing import write_report

    with progress("report", None) as (bar, task):

        def on_progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        try:
            target = write_report([folder], folder / "report.html", on_progress=on_progress)
        except (InputError, OSError) as error:  # the run is complete all the same
            say(f"without a report: {error}")
            return
    say(f"report: {target}")
    if find_spec("matplotlib") is None:
        say(f"it has no figures: {install_command('plots')} installs matplotlib")


def _name(data: str) -> str:
    """The name of the data in that of a run: the file's, or its folder's if it is just "labels".

    Of a pattern, it is what comes before the first special character.

    >>> _name("photos/labels.csv"), _name("photos/train-{000..009}.tar"), _name("photos/*.tar")
    ('photos', 'train', 'photos')
    """
    path = Path(data)
    beginning = re.split(r"[*?\[{]", path.stem)[0].rstrip("-_. ")
    name = path.stem if path.exists() or beginning == path.stem else beginning
    if name == "labels" or (not name and path.stem):
        name = path.resolve().parent.name
    return name or "data"


def _decisive(selected_by: str, score: float | None, verbose: bool) -> str:
    """The score that the best epoch is chosen by, and its value."""
    if selected_by == "map":
        return f"val mAP {percent(score)}"
    name = f"{selected_by} of the seen labels" if verbose else "score on the seen labels"
    return f"{name} {'-' if score is None else format(score, '.4f')}"


def _print(result: RunResult, data: str, *, closed: bool, verbose: bool) -> None:
    """The result as a table, and what to do with it.

    Args:
        result: The result.
        data: Name of the data set.
        closed: Whether it was solved in closed form, so that no epoch was chosen.
        verbose: Whether scores are called by their names.
    """
    against = f"(against {result.val_labels})"
    score = _decisive(result.selected_by, result.val_score, verbose)
    rows: list[tuple[str, object]] = [("val mAP", f"{percent(result.val_map)} {against}")]
    if result.test_map is not None:
        rows.append(("test mAP", percent(result.test_map) + result.test_note))
    if result.recovery is not None:
        recovered = percent(result.recovery["recovery_map"])
        rows.append(("recovered", f"{recovered} (mAP of all labels of the training items)"))
    if not closed:
        rows.append(("best epoch", f"{result.best_epoch} ({score}, validation items)"))
    if (calibration := result.calibration) is not None:
        how = "raw scores" if calibration["from"] == "none" else "calibrated on"
        note = f"({calibration['note']})" if calibration["from"] == "none" else calibration["note"]
        rows.append(("probabilities", f"{how} {note}"))
    rows += [("seconds", f"{result.seconds:.1f}"), ("run", result.run)]
    out.print(table(f"{result.method} on {data}", ("result", ""), rows, text=2))
    say("mAP, mean average precision: how well the items of each class are ranked; 100 is perfect")
    if result.against == "seen" and result.test_map is None:
        say(SEEN_ONLY)
    run = quote(str(result.run))
    commands = {
        f"plusone predict {run} NEW_ITEMS --out tags.csv": "labels of new items",
        f"plusone suggest {run} --out suggestions": "labels that are missing in your data",
        f"plusone evaluate {run}": "all figures",
        f"plusone export {run} --onnx": "the model, for other programs",
    }
    say("next:")
    width = max(map(len, commands))
    for command, gives in commands.items():
        say(f"  {command:{width}}  # {gives}")


def notes(task: Task) -> list[str]:
    """Warnings about the data, a sentence each."""
    from plusone.data.names import name_warnings

    sentences = []
    if task.val.of is not None:
        sentences.append(
            f"validation looks at a sample: {len(task.val)} of {task.val.of} items, because "
            "figures of all would take much memory"
        )
    seen = task.train.observed.per_class(1)
    names = [name for name, count in zip(task.classes, seen, strict=True) if not count]
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        sentences.append(
            "warning: no seen positive, so nothing can be learned of "
            f"{'it' if len(names) == 1 else 'them'}: {', '.join(names[:NAMED])}{more}"
        )
    counts = dict(zip(task.classes, seen.tolist(), strict=True))
    return sentences + [f"warning: {text}" for text in name_warnings(counts)]
