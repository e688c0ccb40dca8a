"""The command `suggest`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file, check_folder
from plusone.cli.loading import dataset_of
from plusone.cli.printing import (
    EXTRACTING,
    KEPT,
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
from plusone.io.files import alone_in, clear_leftovers
from plusone.io.text import percent

if TYPE_CHECKING:
    from plusone.data.dataset import Dataset
    from plusone.data.table import LabelTable
    from plusone.probabilities import LabelsPerItem
    from plusone.recipe import Recipe
    from plusone.suggestions.find import Found

SERVES = (
    "plusone audit {run} draws items and asks for all their labels, for a promise; or review the "
    "best 100 (plusone review {folder} --budget 100 --order likely): answers serve training, k and "
    "calibration"
)
NOTHING_ASKED = "no label is accepted: nobody checked any. {serves}; --precision 0.9 accepts by "
NOTHING_ASKED += "expectation"
SCORES = {
    "kept by the run": "Scores: the run had kept its predictions of left-out items; nothing was "
    "fitted again.",
    "fitted": "Scores: fitted anew, each item by a model without it.",
}
FORMS = ("json", "parquet", "label-studio", "fiftyone", "probabilities")


def suggest(
    run: Annotated[Path, typer.Argument(help="A run folder made by plusone train.")],
    data: Annotated[str | None, typer.Argument(help="Data; the run's own by default.")] = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write; default RUN-suggestions.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds, if the run kept no scores.")] = 5,
    audit: Annotated[
        Path | None,
        typer.Option(help="All labels of a few items, or labels exported by plusone review."),
    ] = None,
    positives: Annotated[
        float | None, typer.Option(min=1, help="Labels per item, if you know; else estimated.")
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.999,
            help="Accept labels of which this share is right; by default 0.9 with an audit, and "
            "none without one.",
        ),
    ] = None,
    draw_audit: Annotated[
        int | None,
        typer.Option(
            "--draw-audit", min=20, metavar="N", help="Write the N items to audit, audit.csv."
        ),
    ] = None,
    picks: opt.PickModels = None,
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
    wrong: Annotated[
        bool,
        typer.Option(
            "--wrong", help="Also list seen labels that may be wrong, most doubtful first."
        ),
    ] = False,
    features: opt.Features = None,
    hints: opt.Hints = None,
    device: opt.Device = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of folds and weights; default the run's.")
    ] = None,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Suggest labels that are missing, with calibrated probabilities.

    Every item is scored by a model that has not seen it. A run in closed form, the
    default, has kept such scores; else the recipe is trained once per fold on the
    other folds, and a stopped command continues where it was. Without an audit the
    probabilities are expectations. plusone audit RUN asks a person for all
    labels of some items, and --audit FILE calibrates on the answers.

    Example: [bold]plusone suggest runs/photos-gr-seed0 --precision 0.95[/bold]
    Example: [bold]plusone suggest runs/photos-gr-seed0 --audit checked.csv[/bold]
    Example: [bold]plusone suggest runs/photos-gr-seed0 --wrong[/bold]
    """
    from plusone.data.feature_store import features_folder
    from plusone.prediction.run_folder import read_audit
    from plusone.suggestions.find import (
        check_no_audit,
        drawn_weights,
        head_only,
        run_k,
        run_labels,
        run_recipe,
    )
    from plusone.suggestions.outputs import (
        PROBABILITIES,
        accepted_file,
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
    if draw_audit is not None:
        check_no_audit(folder)
    recipe = run_recipe(run, device or "auto", seed, picks)
    dataset = dataset_of(run, data, features, form, meaning, hints)
    dataset = replace(dataset, table=run_labels(run, dataset.table, recipe))
    more_labels = labels or accepted_file(folder, dataset.table)
    check_file(more_labels, flag="--accepted")
    try:
        check_accepted(dataset.table, more_labels)
    except InputError as error:
        raise InputError(f"{error} (--accepted FILE.npz)") from None
    for name in [each for each in forms if each != PROBABILITIES]:
        check_form(name, dataset.table)
    checked = None if audit is None else read_audit(audit, run)
    cached = features_folder()
    if linear:
        with resume_hint(KEPT), progress(EXTRACTING, len(dataset.table)) as (bar, making):
            dataset, recipe = head_only(
                run, dataset, recipe, lambda n: bar.advance(making, n), cached
            )
    own = positives is None and data is None and picks is None
    k = run_k(run, dataset.table) if own else positives
    drawn = None
    if audit is not None:  # drawn by this command, or by plusone audit
        drawn = drawn_weights(folder) or drawn_weights(audit.with_suffix(""))
    found = find_missing(dataset, recipe, folds, checked, k, folder, cached, drawn, run)
    suggestions = found.suggestions(least=least, top=top)  # first: others need fewer labels
    accepted = found.accept(precision, per_class=per_class)
    doubtful = found.wrong() if wrong else None
    if not leads():  # the files are those of rank 0
        return
    about: dict[str, Any] = {"run": str(run), "backbone_saw_items": linear}
    if draw_audit is not None:
        about["to_audit"] = str(folder / found.write_audit(folder, draw_audit))
    result = write_found(
        found,
        accepted,
        suggestions,
        folder,
        labels=more_labels,
        forms=forms,
        image_prefix=image_prefix,
        about=about | ({"broken": len(dataset.broken)} if dataset.broken else {}),
        wrong=doubtful,
    )
    if as_json:
        emit(result)
        return
    files_of_images = dataset.table.root is not None
    review = ["plusone", "review", str(folder)]
    if files_of_images and recipe.crops != "one" and to is not None:  # it shows where labels are
        review += ["--run", str(run)]
    training = _training(run, data, features, more_labels, images=files_of_images)
    _print(result, review, training)


def find_missing(
    dataset: Dataset,
    recipe: Recipe,
    folds: int,
    audit: LabelTable | None,
    positives: float | LabelsPerItem | None,
    folder: Path,
    cached: Path,
    drawn: dict[str, float] | None,
    run: Path,
) -> Found:
    """Trains the models of all folds, with a progress bar; those that are done are kept."""
    from plusone.data.broken import write_broken
    from plusone.methods import get_method
    from plusone.suggestions.find import find

    images = dataset.features is None or dataset.features.ndim == 4
    stages = recipe.resolved_stages(
        images=images, phases=get_method(recipe.method).phases_of(recipe.options)
    )
    if images and any(stage.inputs == "images" for stage in stages):
        say(f"fine-tuning {folds} models; --linear trains only heads on the run's features")
    epochs = sum(stage.epochs for stage in stages)
    again = resume_hint(
        f"run the same command again to continue ({folder} keeps the folds that are done)"
    )
    with again, alone_in(folder), progress("training", None) as bar_and_task:
        steps = Steps(*bar_and_task)
        done = 0
        if leads():
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
            drawn=drawn,
            keep=folder / "folds",
            on_epoch=on_epoch,
            on_fold=on_fold,
            on_extract=lambda count: steps.extracted(count, len(dataset.table)),
            features_folder=cached,
            run=run,
        )


def _print(result: dict[str, Any], review: list[str], training: list[str]) -> None:
    """Prints which labels can be accepted, how reliable they are, and what to do next.

    Args:
        result: What `--json` gives.
        review: The words of the command that opens the review page.
        training: The words of the command that trains on the accepted labels; none if there is no
            such command.
    """
    from plusone.probabilities.picks import Salience

    accepted, audit = result["accepted"], result["calibration"]["audit"]
    asked = accepted["target"] is not None
    serves = SERVES.format(run=quote(result["run"]), folder=quote(result["out"]))
    known = "true_precision" in accepted
    columns = ["class", "accepted", "estimated %", *(["true %"] if known else [])]
    some = [row for row in accepted["classes"] if row["accepted"]]
    rows = [
        [row["class"], row["accepted"], percent(row["estimated_precision"])]
        + ([percent(row["true_precision"])] if known else [])
        for row in [*some, accepted | {"class": "all"}]
    ]
    target, none = percent(accepted["target"]), len(accepted["classes"]) - len(some)
    if asked:
        out.print(table(f"labels to accept at {target} %", columns, rows))
    if not asked:
        say(NOTHING_ASKED.format(serves=serves))
    elif not some:
        why = "nobody checked a label" if audit is None else "the answers do not support it"
        say(f"no label can be accepted at {target} %: {why}. {serves}; or lower --precision")
    elif none:
        say(f"classes without a label to accept: {none}")
    say(result["calibration"]["sentence"])
    if (salience := result["calibration"]["salience"]) is not None:
        names = [row["class"] for row in accepted["classes"]]
        say(f"How annotators pick: {Salience.from_dict(salience).finding(names)}.")
    if (weight := result.get("hint_weight")) is not None:
        used = f"count with the weight {weight:g}" if weight else "are left out"
        say(f"Hints {used}, which ranks the seen labels best.")
    say(SCORES[result["scores"]])
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
    if (wrong := result.get("wrong")) is not None:
        say(wrong["sentence"])
        say(f"The {wrong['listed']} most doubtful labels are listed in {folder}/wrong.csv")
    say(f"{result['suggestions']} suggestions for {result['items']} items in {folder}")
    if (items := result.get("to_audit")) is not None:
        say(f"to audit: give each item of {items} all its labels, then --audit {quote(items)}")
    say(f"next: {join(review)}")
    if accepted["accepted"] and training:
        say(f"      {join(training)} (accepted labels count as seen)")


def _bound(accepted: dict[str, Any], *, grouped: bool) -> str:
    """What the audit says about the precision of the accepted labels."""
    low, (checked, right) = accepted["precision_at_least"], accepted["audited"]
    return (
        f"of the accepted labels at least {percent(low)} % are right (95 % confidence): of the "
        f"audited items {checked} labels would be accepted, and {right} of them are right"
        + ("; labels of a group count as one" if grouped else "")
    )


def _training(
    run: Path, data: str | None, features: list[Path] | None, labels: Path, *, images: bool
) -> list[str]:
    """The command that trains on accepted labels, if there are files with the inputs."""
    from plusone.data.classes_file import parents_file
    from plusone.prediction.run_folder import read_description

    if data is None:
        features = [Path(path) for path in read_description(run).source.get("features", ())]
    if not features and not images:
        return []
    words = [word for path in features or () for word in ("--features", str(path))]
    words += [] if (classes := parents_file(run)) is None else ["--classes", str(classes)]
    return ["plusone", "train", str(labels), *words]
