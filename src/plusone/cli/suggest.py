"""The command `suggest`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli.checks import check_file, check_folder
from plusone.cli.loading import dataset_of
from plusone.cli.options import Device, Features, Form, Hints, Json, Meaning, Plugin
from plusone.cli.printing import (
    EXTRACTING,
    KEPT,
    Steps,
    emit,
    out,
    percent,
    progress,
    resume_hint,
    say,
    table,
)
from plusone.errors import InputError
from plusone.io.files import alone_in, clear_leftovers

if TYPE_CHECKING:
    from plusone.data.dataset import Dataset
    from plusone.data.table import LabelTable
    from plusone.probabilities import LabelsPerItem
    from plusone.recipe import Recipe
    from plusone.suggest.find import Found

FORMS = ("json", "parquet", "label-studio", "fiftyone", "probabilities")


def suggest(
    run: Annotated[Path, typer.Argument(help="A run folder made by plusone train.")],
    data: Annotated[str | None, typer.Argument(help="Data; the run's own by default.")] = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write; default RUN-suggestions.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Models to train, each on the others.")] = 5,
    audit: Annotated[
        Path | None,
        typer.Option(help="All labels of a few items, or labels exported by plusone review."),
    ] = None,
    positives: Annotated[
        float | None, typer.Option(min=1, help="Labels per item, if you know; else estimated.")
    ] = None,
    precision: Annotated[
        float, typer.Option(min=0.01, max=0.999, help="Share of accepted labels that is right.")
    ] = 0.9,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Reach the precision in each class by itself.")
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option("--accepted", help="File for seen and accepted labels; default in --out."),
    ] = None,
    least: Annotated[
        float, typer.Option("--min-probability", min=0, max=1, help="Leave out labels below it.")
    ] = 0.02,
    top: Annotated[int | None, typer.Option(min=1, help="Maximum number per item.")] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also", metavar="FORM", help=f"Write it too: {', '.join(FORMS)} (repeatable)."
        ),
    ] = None,
    image_prefix: Annotated[
        str,
        typer.Option(help="Put before image names for Label Studio, such as s3://bucket/photos/."),
    ] = "",
    linear: Annotated[
        bool,
        typer.Option("--linear", help="Fine-tuned runs: train heads on the run's features only."),
    ] = False,
    features: Features = None,
    hints: Hints = None,
    device: Device = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of folds and weights; default the run's.")
    ] = None,
    as_json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Suggest labels that are missing, with calibrated probabilities.

    The run's recipe is trained once per fold on the other folds, so every item is
    judged by a model that has not seen it. A stopped command continues where it was.

    Example: [bold]plusone suggest runs/photos-gr-seed0 --precision 0.95[/bold]
    Example: [bold]plusone suggest runs/photos-gr-seed0 --audit checked.csv[/bold]
    """
    from plusone.data.formats import read
    from plusone.features.extraction import FOLDER
    from plusone.probabilities.accept import accept
    from plusone.suggest.find import head_only, run_k, run_labels, run_recipe
    from plusone.suggest.outputs import (
        ACCEPTED,
        PROBABILITIES,
        check_accepted,
        check_form,
        write_found,
    )

    forms = list(dict.fromkeys(also or ()))
    for name in forms:
        if name not in FORMS:
            raise InputError(f"--also {name}: take one of {', '.join(FORMS)}")
    if image_prefix and "label-studio" not in forms:
        raise InputError("--image-prefix is for --also label-studio; add it, or leave this out")
    folder = to or run.with_name(f"{run.name}-suggestions")
    check_folder(folder)
    more_labels = labels or folder / ACCEPTED
    check_file(more_labels, flag="--accepted")
    recipe = run_recipe(run, device or "auto", seed)
    dataset = dataset_of(run, data, features, form, meaning, hints)
    dataset = replace(dataset, table=run_labels(run, dataset.table, recipe))
    try:
        check_accepted(dataset.table, more_labels)
    except InputError as error:
        raise InputError(f"{error} (--accepted FILE.npz)") from None
    for name in forms:
        if name != PROBABILITIES:
            check_form(name, dataset.table)
    checked = None if audit is None else read(audit, check_images=False).table
    beside = run.parent / FOLDER  # features of the run
    shared = not linear and beside.is_dir() and os.access(beside, os.W_OK)
    cached = beside if shared else folder / "folds"
    if linear:
        with resume_hint(KEPT), progress(EXTRACTING, len(dataset.table)) as (bar, making):
            dataset, recipe = head_only(
                run, dataset, recipe, lambda n: bar.advance(making, n), cached
            )
    k = run_k(run, dataset.table) if positives is None and data is None else positives
    found = _find(dataset, recipe, folds, checked, k, folder, cached)
    accepted = accept(
        found.calibrated, found.observed, precision, per_class=per_class, groups=found.groups
    )
    about: dict[str, Any] = {"run": str(run), "backbone_saw_items": linear}
    result = write_found(
        found,
        accepted,
        found.suggestions(least=least, top=top),
        folder,
        labels=more_labels,
        forms=forms,
        image_prefix=image_prefix,
        about=about | ({"broken": len(dataset.broken)} if dataset.broken else {}),
    )
    if as_json:
        emit(result)
        return
    files_of_images = dataset.table.root is not None
    _print(result, _training(run, data, features, more_labels, images=files_of_images))


def _find(
    dataset: Dataset,
    recipe: Recipe,
    folds: int,
    audit: LabelTable | None,
    positives: float | LabelsPerItem | None,
    folder: Path,
    cached: Path,
) -> Found:
    """Trains the models of all folds, with a progress bar; those that are done are kept."""
    from plusone.data.broken import write_broken
    from plusone.methods import get_method
    from plusone.suggest.find import find

    images = dataset.features is None or dataset.features.ndim == 4
    stages = recipe.resolved_stages(images=images, phases=get_method(recipe.method).phases)
    if images and any(stage.inputs == "images" for stage in stages):
        say(f"fine-tuning {folds} models; --linear trains only heads on the run's features")
    epochs = sum(stage.epochs for stage in stages)
    again = resume_hint(
        f"run the same command again to continue ({folder} keeps the folds that are done)"
    )
    with again, alone_in(folder), progress("training", None) as bar_and_task:
        steps = Steps(*bar_and_task)
        done = 0
        clear_leftovers(folder)
        clear_leftovers(folder / "folds")
        write_broken(folder, dataset.broken)

        def on_fold(number: int, resumed: bool) -> None:
            nonlocal done
            done = (number + 1) * epochs
            steps.to(f"training {folds} models", done, folds * epochs)

        def on_epoch(number: int) -> None:
            nonlocal done
            done += 1
            steps.to(f"training {folds} models", done, folds * epochs)

        return find(
            dataset,
            recipe,
            folds,
            audit=audit,
            positives=positives,
            keep=folder / "folds",
            on_epoch=on_epoch,
            on_fold=on_fold,
            on_extract=lambda count: steps.extracted(count, len(dataset.table)),
            features_folder=cached,
        )


def _print(result: dict[str, Any], training: list[str]) -> None:
    """Prints which labels can be accepted, how reliable they are, and what to do next.

    Args:
        result: What `--json` gives.
        training: The words of the command that trains on the accepted labels; none if there is no
            such command.
    """
    from plusone.probabilities.accept import FEWEST_AUDITED, too_few_groups

    accepted, audit = result["accepted"], result["calibration"]["audit"]
    known = "true_precision" in accepted
    columns = ["class", "accepted", "estimated %", *(["true %"] if known else [])]
    some = [row for row in accepted["classes"] if row["accepted"]]
    rows = [
        [row["class"], row["accepted"], percent(row["estimated_precision"])]
        + ([percent(row["true_precision"])] if known else [])
        for row in [*some, accepted | {"class": "all"}]
    ]
    target, none = percent(accepted["target"]), len(accepted["classes"]) - len(some)
    out.print(table(f"labels to accept at {target} %", columns, rows))
    if not some and audit is not None and too_few_groups(audit["groups"]):
        say(
            f"no label can be accepted: the answers are about {audit['groups']} groups, and a "
            f"precision is promised from {FEWEST_AUDITED} on; audit more groups, or review the "
            "suggestions"
        )
    elif not some:
        say(
            f"no label can be accepted at {target} %: nothing can be promised; "
            "lower --precision, audit some items (--audit), or review the suggestions"
        )
    elif none:
        say(f"classes without a label to accept: {none}")
    say(result["calibration"]["sentence"])
    if (weight := result.get("hint_weight")) is not None:
        used = f"count with the weight {weight:g}" if weight else "are left out"
        say(f"Hints {used}, which ranks the seen labels best.")
    if result["backbone_saw_items"]:
        say("The backbone was trained on these very items, so the probabilities may be too high.")
    if some and audit is not None:
        say(_bound(accepted, grouped=audit["groups"] is not None))
    if known and some:
        say(
            f"the truth is known here: {percent(accepted['true_precision'])} % of them are right, "
            f"{percent(accepted['recovered'])} % of the missing labels are among them"
        )
    folder = result["out"]
    say(f"{result['suggestions']} suggestions for {result['items']} items in {folder}")
    say(f"next: plusone review {quote(folder)}")
    if accepted["accepted"] and training:
        say(f"      {join(training)} (accepted labels count as seen)")


def _bound(accepted: dict[str, Any], *, grouped: bool) -> str:
    """What the audit says about the precision of the accepted labels."""
    low, (checked, right) = accepted["precision_at_least"], accepted["audited"]
    if low is None:
        return (
            "no lower bound: of items drawn at random with all their labels known, none has a "
            "label that would be accepted; audit more items, or review the accepted labels"
        )
    return (
        f"of the accepted labels at least {percent(low)} % are right (95 % confidence): of the "
        f"audited items {checked} labels would be accepted, and {right} of them are right"
        + ("; labels of a group count as one" if grouped else "")
    )


def _training(
    run: Path, data: str | None, features: list[Path] | None, labels: Path, *, images: bool
) -> list[str]:
    """The command that trains on accepted labels, if there are files with the inputs."""
    from plusone.prediction.run_folder import read_description

    if data is None:
        features = [Path(path) for path in read_description(run).source.get("features", ())]
    if not features and not images:
        return []
    words = [word for path in features or () for word in ("--features", str(path))]
    return ["plusone", "train", str(labels), *words]
