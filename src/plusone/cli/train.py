"""The command `train`."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_folder
from plusone.cli.comparison import report_shown
from plusone.cli.loading import layers, load
from plusone.cli.printing import (
    KEPT,
    SEEN_ONLY,
    Steps,
    emit,
    out,
    progress,
    resume_hint,
    say,
    table,
)
from plusone.cli.processes import leads
from plusone.errors import InputError
from plusone.extras import install_command
from plusone.io.files import alone_in
from plusone.io.text import by_level, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plusone.autorecipe import Composed
    from plusone.inputs.task import Task
    from plusone.recipe import Recipe
    from plusone.results import EpochRecord, RunResult
    from plusone.training.rates import Picked
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
K_FROM = {
    "validation": "counted on the validation items",
    "estimated": "estimated from the seen labels, which cannot tell hidden labels from errors of "
    "the model (plusone priors tells more)",
}


def train(
    data: opt.Data = "digits",
    method: opt.OneMethod = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run folder; default runs/DATA-METHOD-seedN.")
    ] = None,
    features: opt.Features = None,
    hints: opt.Hints = None,
    recipe: opt.RecipeFile = None,
    settings: opt.Set = None,
    device: opt.Device = None,
    mode: Annotated[
        str | None, typer.Option(help="linear, finetune or linear_init; by the data by default.")
    ] = None,
    backbone: opt.Backbone = None,
    encoder: opt.Encoder = None,
    classes: opt.Classes = None,
    epochs: opt.Epochs = None,
    lr: opt.Rate = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Items per step; by the data by default.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of weights and batches; default 0.")
    ] = None,
    picks: opt.PickModels = None,
    observe: Annotated[
        str | None,
        typer.Option(help="Where all labels are known: the scheme that hides some, or given."),
    ] = None,
    rules: opt.Rules = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a stopped run.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Time a few steps, print time and memory of the run, write nothing."
        ),
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(
            "--track",
            metavar="NAME",
            help="Send the figures to tensorboard, mlflow or wandb too (repeatable).",
        ),
    ] = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    separator: opt.Separator = None,
    report: Annotated[
        bool | None,
        typer.Option(
            "--report/--no-report", help="Write RUN/report.html; by default unless --json."
        ),
    ] = None,
    verbose: opt.Verbose = False,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Train a multi-label model from one positive label per item.

    What you do not set is chosen by rules that look at the data; each says why. A recipe file
    describes a run in full and switches them off; the embedded digits have fixed settings.
    Where all labels are known, all but one positive per item are hidden first,
    as in the papers; partial labels are used as they are. Unknown test labels are left out of the
    figures; mAP if all were negative, and if all were positive, is shown beside.

    Example: [bold]plusone train photos[/bold] (a folder per class, or a folder with labels.csv)
    Example: [bold]plusone train labels.csv -x photos.npz -m em -s options.alpha=0.2[/bold]
    Example: [bold]plusone train[/bold] (the embedded digits)
    """
    from plusone.autorecipe import check, compose, facts_of
    from plusone.cli.estimates import show_estimate
    from plusone.data.broken import write_broken
    from plusone.data.feature_store import features_folder
    from plusone.data.source import EMBEDDED, make_source, short_name
    from plusone.data.text_features import MADE_BY
    from plusone.device import resolve
    from plusone.inputs.task import make_task
    from plusone.training.before import since_answers
    from plusone.training.run import train as run
    from plusone.training.tracking import make_listeners

    listeners = make_listeners(track or ())
    flags = {
        "method": method, "mode": mode, "backbone": backbone, "epochs": epochs, "lr": lr,
        "batch_size": batch_size, "seed": seed, "observe": observe, "picks": picks,
    }  # fmt: skip
    given = layers(recipe, opt.with_device(settings, device), flags)
    where = str(recipe) if recipe else "settings"
    ruled = opt.by_rules(rules, recipe)
    asked = check(*given, rules=ruled and data not in EMBEDDED, source=where)
    resolve(asked.device)
    if to is not None:
        _check_new(to, resume)
    with progress("reading", None) as (bar, reading):
        dataset = load(
            data, features, form, meaning, hints=hints, separator=separator, encoder=encoder,
            classes=classes or "beside", shown=(bar, reading),
        )  # fmt: skip
        facts = partial(facts_of, dataset) if ruled else None
        composed = compose(facts, *given, name=data, source=where)
    if dry_run:
        show_estimate(dataset, composed, data, as_json=as_json)
        return
    with progress("reading", None) as (bar, reading):
        name = f"{short_name(data)}-{composed.recipe.method}-seed{composed.recipe.seed}"
        folder = to or Path("runs") / name
        _check_new(folder, resume)
        bar.update(reading, description="reading", completed=0, total=len(dataset.table))
        task = make_task(dataset, composed.recipe, tick=lambda: bar.advance(reading))
    encoder = dataset.made_by.get(MADE_BY)
    source = make_source(data, features or (), form, meaning, hints, separator, encoder, classes)
    cached = features_folder() if task.images else None
    picked = _pick_rate(task, composed, cached)
    if picked is not None:
        composed = composed.revised(picked.choice)
    _announce(task, composed, dataset.table.notes, {key for layer in given for key in layer})
    extracted = _say_expected(task, composed.recipe, cached)
    again = resume_hint(f"add --resume to the same command to continue ({folder})")
    with again, alone_in(folder), progress("training", None) as bar_and_task:
        if leads():
            write_broken(folder, dataset.broken)
        shown = _Shown(Steps(*bar_and_task), task, composed.recipe, verbose)
        shown.steps.done = extracted
        result = run(
            task,
            composed.recipe,
            folder,
            resume=resume,
            on_record=shown.record,
            on_step=shown.step,
            on_extract=shown.extracted,
            source=source.to_json(),
            rules=composed.rules,
            features=cached,
            listeners=listeners,
            picked=picked,
        )
    if leads() and (report if report is not None else not as_json):
        _report(folder)
    if as_json:
        emit(result.to_json() | ({"broken": len(dataset.broken)} if dataset.broken else {}))
        return
    _print(result, task.name, closed=shown.closed, verbose=verbose)
    if (changed := since_answers(task, result, folder)) is not None:
        say(changed)


def _pick_rate(task: Task, composed: Composed, folder: Path | None) -> Picked | None:
    """The best run of several learning rates, where the rules chose the rate."""
    from plusone.training.rates import pick_rate

    if "lr" not in composed.chosen:
        return None
    recipe, name = composed.recipe, "trying learning rates"
    with resume_hint(KEPT), progress(name, None) as bar_and_task:
        steps = Steps(*bar_and_task)
        return pick_rate(
            task,
            recipe,
            lambda epoch: steps.to(name, epoch, recipe.epochs),
            tick=partial(steps.extracted, total=len(task.train) + len(task.val)),
            folder=folder,
        )


def _announce(task: Task, composed: Composed, remarks: Sequence[str], asked: set[str]) -> None:
    """Prints what is trained on what, and how."""
    from plusone.build import plan_of
    from plusone.device import describe, resolve
    from plusone.training.guards import compiler_problem

    recipe = composed.recipe
    say(
        f"{task.name}: {len(task.train)} items for training, {len(task.val)} for validation, "
        f"{len(task.test or ())} for testing; {len(task.classes)} classes; method {recipe.method}"
    )
    if (scheme := task.observation.get("scheme", "given")) not in ("given", "all"):
        say(f"labels of the training items were hidden (observation scheme {scheme})")
    plan = plan_of(recipe, images=task.images)
    warned = (f"warning: {text}" for text in plan.remarks)
    for note in (*(f"note: {text}" for text in remarks), *notes(task), *warned):
        say(note)
    for choice in composed.choices:
        say(f"rule: {choice}")
    if not task.images and (idle := sorted(IMAGES_ONLY & recipe.model_fields_set)):
        say(f"ignored (features, not images): {', '.join(idle)}")
    if plan.closed_form and (idle := sorted(STEPS_ONLY & asked)):
        say(f"ignored (closed-form method): {', '.join(idle)}")
    say(f"device: {describe(resolve(recipe.device))}")
    if recipe.compile and (problem := compiler_problem(recipe.device)) is not None:
        say(problem)


def _say_expected(task: Task, recipe: Recipe, folder: Path | None) -> int:
    """Prints the labels per item; returns how many features were extracted to estimate them."""
    from plusone.training.expected import expected

    with resume_hint(KEPT), progress("estimating labels per item", None) as bar_and_task:
        steps = Steps(*bar_and_task)
        k = expected(recipe, task, folder, partial(steps.extracted, total=_items(task)))
    if k.source in K_FROM:
        ends = "" if k.estimate is None else f" ({k.estimate.low:.3g} to {k.estimate.high:.3g})"
        say(f"labels per item: about {k.k:.3g}{ends}, {K_FROM[k.source]}")
    return steps.done


def _items(task: Task) -> int:
    return len(task.train) + len(task.val) + len(task.test or ())


class _Shown:
    """The progress bar and the lines of a run."""

    def __init__(self, steps: Steps, task: Task, recipe: Recipe, verbose: bool) -> None:
        from plusone.build import plan_of

        self.steps, self.verbose = steps, verbose
        plan = plan_of(recipe, images=task.images)
        self.closed, self.stages, self.said = plan.closed_form, plan.stages, plan.remarks
        self.items, self.per_epoch = _items(task), -(-len(task.train) // recipe.batch_size)
        total = self.per_epoch * sum(stage.epochs for stage in self.stages)
        self.total = None if self.closed else total
        self._moved = 0.0  # when the bar last moved

    def step(self, clock: Clock) -> None:
        """Moves the bar after a step."""
        now = time.monotonic()
        if now - self._moved < BETWEEN_MOVES and clock.step + 1 < clock.steps:
            return  # a step on features takes less time than an update of the bar
        self._moved = now
        before = sum(stage.epochs for stage in self.stages[: clock.stage]) + clock.epoch
        self.steps.to("training", before * self.per_epoch + clock.step + 1, self.total)

    def extracted(self, count: int) -> None:
        """Advances the bar by `count` extracted features."""
        self.steps.extracted(count, self.items)
        if self.steps.done == self.items:
            self.steps.to("training", 0, self.total)

    def record(self, record: EpochRecord) -> None:
        """Prints a line for an epoch, and what was not said before."""
        for remark in record.remarks:
            if remark not in self.said:
                say(f"warning: {remark}")
        if self.closed and not self.verbose:
            return  # there is one, and the table at the end shows its figures
        many = len(self.stages)
        where = f"stage {record.stage + 1} of {many}, " if many > 1 else ""
        figures = _decisive(record.selected_by, record.val_score, self.verbose)
        figures += ", the best so far" if record.best else ""
        if self.verbose and record.selected_by != "map":
            figures += f" (val mAP {percent(record.val_map)})"
        say(f"{where}epoch {record.epoch:3d}: {figures}")


def _check_new(folder: Path, resume: bool) -> None:
    """Refuses a run folder that cannot be written, or that holds a run already."""
    check_folder(folder)
    if leads() and (folder / "recipe.toml").exists() and not resume:
        raise InputError(
            f"{folder}: holds a run already; --resume continues it, or choose another --out"
        )


def _report(folder: Path) -> None:
    from importlib.util import find_spec

    try:
        say(f"report: {report_shown([folder], folder / 'report.html')}")
    except (InputError, OSError) as error:  # the run is complete all the same
        say(f"without a report: {error}")
        return
    if find_spec("matplotlib") is None:
        say(f"it has no figures: {install_command('plots')} installs matplotlib")


def _decisive(selected_by: str, score: float | None, verbose: bool) -> str:
    """The score that the best epoch is chosen by, and its value."""
    if selected_by == "map":
        return f"val mAP {percent(score)}"
    name = f"{selected_by} of the seen labels" if verbose else "score on the seen labels"
    return f"{name} {'-' if score is None else format(score, '.4f')}"


def _print(result: RunResult, data: str, *, closed: bool, verbose: bool) -> None:
    """The result as a table, and what to do with it."""
    against = f"(against {result.val_labels})"
    score = _decisive(result.selected_by, result.val_score, verbose)
    rows: list[tuple[str, object]] = [("val mAP", f"{percent(result.val_map)} {against}")]
    if result.test_map is not None:
        rows.append(("test mAP", percent(result.test_map) + result.test_note))
    if result.test_map_by_level:
        rows.append(("test items", by_level(result.test_map_by_level)))
    if result.recovery is not None:
        recovered = percent(result.recovery["recovery_map"])
        rows.append(("recovered", f"{recovered} (mAP of all labels of the training items)"))
    if not closed:
        rows.append(("best epoch", f"{result.best_epoch} ({score}, validation items)"))
    if (calibration := result.calibration) is not None:
        how = "raw scores" if calibration["from"] == "none" else "calibrated on"
        note = f"({calibration['note']})" if calibration["from"] == "none" else calibration["note"]
        rows.append(("probabilities", f"{how} {note}"))
        if (finding := calibration.get("picks")) is not None:
            rows.append(("how annotators pick", finding))
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
    from plusone.data.checks import label_warnings, main_class_warnings

    sentences = []
    if task.val.of is not None:
        sentences.append(
            f"validation looks at a sample: {len(task.val)} of {task.val.of} items, because "
            "figures of all would take much memory"
        )
    seen = task.train.observed.per_class(1).tolist()
    warnings = label_warnings(task.classes, seen)
    if task.train.truth is None:
        warnings += main_class_warnings(dict(zip(task.classes, seen, strict=True)))
    return sentences + [f"warning: {text}" for text in warnings]
