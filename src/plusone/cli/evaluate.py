"""The command `evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.loading import as_asked, dataset_of, warn_if_diverged
from plusone.cli.printing import SEEN_ONLY, emit, out, progress, say, table
from plusone.io.text import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Metrics of `evaluate` in words: (name in JSON, words, whether it is shown without --verbose). {k}
# is --top-k.
WORDS = (
    ("map", "ranking of each class (mAP)", True),
    ("op", "predicted labels that are right (precision)", True),
    ("or", "right labels that are predicted (recall)", True),
    ("of1", "both in one figure (F1)", True),
    ("cp", "precision, mean over classes", True),
    ("cr", "recall, mean over classes", True),
    ("cf1", "F1 of these two means", True),
    ("one_error", "items whose first label is wrong (one-error)", True),
    ("op_top{k}", "precision of the first {k} labels", True),
    ("or_top{k}", "recall of the first {k} labels", True),
    ("of1_top{k}", "F1 of the first {k} labels", False),
    ("cp_top{k}", "precision of the first {k}, mean over classes", False),
    ("cr_top{k}", "recall of the first {k}, mean over classes", False),
    ("cf1_top{k}", "F1 of these two means", False),
    ("hamming", "labels decided wrongly (Hamming loss)", False),
    ("hamming_top{k}", "the same for the first {k} labels", False),
    ("ppv", "precision, mean over predicted classes (PPV)", False),
    ("npv", "right noes, mean over classes (NPV)", False),
    ("ppv_pooled", "PPV of all labels together", False),
    ("npv_pooled", "NPV of all labels together", False),
    ("ranking_loss", "pairs of labels in the wrong order (ranking loss)", False),
    ("ece", "probabilities are off by, on average (ECE)", True),
    ("mean_probability", "mean probability", False),
    ("true_rate", "labels that are true", False),
)
NUMBERS = (  # the same for what is no share
    ("coverage", "labels to go through to find all of an item (coverage)"),
    ("brier", "squared error of the probabilities (Brier score)"),
)
SPLIT_WORDS = {
    "train": "training items",
    "val": "validation items",
    "test": "test items",
    "all": "items",
}
ONLY_LEARNED = (
    "{run} learned from the labels of all its items, so figures of these would be too good. Its "
    "own figure leaves each item out: val mAP {figure} (against {labels}). For more, name "
    "labelled items that it has not seen: plusone evaluate {run} DATA; --split val shows those "
    "that are too good"
)
LEARNED = (
    "note: the model learned from the seen labels of these items too, so the figures are too good; "
    "those of the run itself (val_map in metrics.json) leave each item out"
)


def evaluate(
    run: opt.Run,
    data: Annotated[str | None, typer.Argument(help="Data; the run's own by default.")] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="train, val, test or all; by default test if there are test items, else val (all "
            "of DATA that is named here)."
        ),
    ] = None,
    threshold: opt.ByClass = None,
    crops: opt.Shown = None,
    top_k: Annotated[int, typer.Option(min=1, help="Labels per item for the top-k figures.")] = 3,
    features: opt.Features = None,
    hints: opt.Hints = None,
    batch_size: opt.AtOnce = "auto",
    device: opt.Device = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.UnusedSeed = 0,
    verbose: opt.Verbose = False,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Measure a trained model on labelled data.

    Where some labels are unknown they are left out, and the metrics with all of them negative and
    with all of them positive are shown beside.

    Example: [bold]plusone evaluate runs/digits-gr-seed0[/bold]
    """
    from plusone.prediction.evaluate import (
        as_in_training,
        as_named_in_run,
        check_split,
        evaluate_run,
        existing_split,
        learns_from_validation,
        trained_on,
    )
    from plusone.prediction.load import load_run
    from plusone.probabilities.thresholds import thresholds_for

    if (asked := split) is not None:
        check_split(asked)
    predictor = as_asked(load_run(run, device or "auto"), crops, batch_size)
    warn_if_diverged(run)
    cuts = thresholds_for(run, predictor.classes, threshold)
    dataset = dataset_of(run, data, features, form, meaning, hints)
    if split is None:
        split = existing_split(dataset, own=data is None)
        if split == "all" and (count := trained_on(dataset, run)):
            say(
                f"warning: {count} of these items have the name of a training item of the run; "
                "figures on items that a model was trained on are too good"
            )
    by_name = data is not None and split in ("train", "val")
    if by_name:
        dataset = as_named_in_run(dataset, run, split)
    elif split in ("train", "val"):
        dataset = as_in_training(dataset, run, predictor.recipe)
    learned = split == "val" and learns_from_validation(predictor)
    if learned and asked is None and data is None:
        _own_figure(run, as_json=as_json)
        return
    if learned:
        say(LEARNED)
    with progress("predicting", None) as (bar, task):
        result = evaluate_run(
            predictor,
            dataset,
            split,
            hold_out=not by_name,
            threshold=cuts.array,
            top_k=top_k,
            tick=lambda done: bar.advance(task, done),
        )
    if as_json:
        header = {"run": str(run), "data": dataset.name, "split": split}
        header |= {"broken": len(dataset.broken)} if dataset.broken else {}
        header |= {"learned_from": True} if learned else {}
        header |= {"thresholds": cuts.origin, "calibration": predictor.calibration.about()}
        emit(header | result.to_json())
        return
    if absent := result.not_measured:
        say(f"not measured, as the data does not have these classes: {', '.join(absent)}")
    ends = [*result.ends.values()]
    head: tuple[str, ...] = ("", "per cent")
    if ends:
        head = ("per cent", "known", *(f"if {end}" for end in result.ends))
        say(
            f"{result.unknown:,} labels are unknown and are left out; the other columns show the "
            "metrics if all of them were negative, and if all were positive"
        )
    known = {
        "truth": "all their labels",
        "known": "their known labels",
        "seen": "their seen labels",
    }
    some = "" if result.of is None else f", a sample of {result.of}"
    title = f"{run}: {result.items} {SPLIT_WORDS[split]} of {dataset.name}{some}, "
    title += f"against {known[result.against]}"
    out.print(table(title, head, in_words((result.metrics, *ends), top_k, verbose)))
    if result.against == "seen" and not learned:
        say(SEEN_ONLY)
    if not verbose:
        say("--verbose shows more figures")
    for sentence in (cuts.sentence(), predictor.calibration.sentence(), *result.sentences()):
        say(sentence)


def _own_figure(run: Path, *, as_json: bool) -> None:
    """Says what a run measured of itself, where there are no items that it has not learned from."""
    from plusone.prediction.run_folder import read_metrics

    result = read_metrics(run)
    figure, labels = percent(result.val_map), result.val_labels
    say(ONLY_LEARNED.format(run=run, figure=figure, labels=labels))
    if result.against == "seen":
        say(SEEN_ONLY)
    if as_json:
        about = {"run": str(run), "split": "val", "learned_from": True}
        emit(about | {"val_map": result.val_map, "against": result.against})


def in_words(
    columns: Sequence[Mapping[str, float | None]], top_k: int, verbose: bool
) -> list[tuple[str | None, ...]]:
    """Rows of the table of metrics: what is measured, a value per column; shares in per cent."""
    rows: list[tuple[str | None, ...]] = []
    for name, words, always in WORDS:
        key = name.format(k=top_k)
        if key in columns[0] and (always or verbose):
            what = words.format(k=top_k) + (f" [{key}]" if verbose else "")
            rows.append((what, *(percent(values.get(key)) for values in columns)))
    for key, words in NUMBERS if verbose else ():
        numbers = [values.get(key) for values in columns]
        shown = (None if number is None else f"{number:.4f}" for number in numbers)
        rows.append((f"{words} [{key}], a number", *shown))
    return rows
