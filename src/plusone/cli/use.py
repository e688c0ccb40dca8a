"""Commands that use a trained run: evaluate, predict, maps, export."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plusone.cli.common import (
    SEEN_ONLY,
    AtOnce,
    Device,
    Features,
    Form,
    Hints,
    Json,
    Meaning,
    UnusedSeed,
    Verbose,
    check_file,
    check_folder,
    emit,
    load,
    most_at_once,
    out,
    percent,
    progress,
    say,
    table,
)
from plusone.cli.photos import CopyTo, GalleryFile, Links, PhotoOutputs, WriteXmp
from plusone.cli.processes import leads, printable
from plusone.errors import InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plusone.prediction.items import Skipped
    from plusone.prediction.load import Predictor
    from plusone.probabilities.thresholds import Thresholds


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
SHOWN = 20  # skipped images that are listed

Run = Annotated[
    Path, typer.Argument(help="A run folder made by plusone train, or a folder of plusone export.")
]
Shown = Annotated[
    Literal["one", "five"] | None,
    typer.Option(
        "--crops",
        help="Show the model the whole image, or the whole and four tiles; as in training by "
        "default.",
    ),
]
ByClass = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        min=0,
        max=1,
        help="Labels above this probability count; default: the run's own, by class.",
    ),
]


LEARNED = (
    "note: the model learned from the seen labels of these items too, so the figures are too good; "
    "those of the training (val_map in metrics.json) leave each item out"
)


def evaluate(
    run: Run,
    data: Annotated[str | None, typer.Argument(help="Data; the run's own by default.")] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="train, val, test or all; by default test if there are test items, else val (all "
            "of DATA that is named here)."
        ),
    ] = None,
    threshold: ByClass = None,
    crops: Shown = None,
    top_k: Annotated[int, typer.Option(min=1, help="Labels per item for the top-k figures.")] = 3,
    features: Features = None,
    hints: Hints = None,
    batch_size: AtOnce = "auto",
    device: Device = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: UnusedSeed = 0,
    verbose: Verbose = False,
    as_json: Json = False,
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

    if split is not None:
        check_split(split)
    predictor = _shown(load_run(run, device or "auto"), crops, batch_size)
    warn_if_diverged(run)
    cuts = _thresholds(run, predictor.classes, threshold)
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
    say(cuts.sentence())
    say(predictor.calibration.sentence())
    if (sentence := result.calibration()) is not None:
        say(sentence)


def in_words(
    columns: Sequence[Mapping[str, float | None]], top_k: int, verbose: bool
) -> list[tuple[str | None, ...]]:
    """Rows of the table of metrics: what is measured, and the values, in per cent if it is a share.

    Args:
        columns: Values by the names of `plusone.metrics.evaluate`, for each column.
        top_k: How many labels per item the `_top` values are about.
        verbose: Whether all are shown, with these names.
    """
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


def predict(
    run: Run,
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...",
            help="Images, folders of images, patterns such as 'photos/**/*.jpg', a CSV with a "
            "column image, data sets, or feature npz files.",
        ),
    ],
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file; standard output by default.")
    ] = None,
    gallery: GalleryFile = None,
    copy_to: CopyTo = None,
    links: Links = False,
    write_xmp: WriteXmp = False,
    threshold: ByClass = None,
    crops: Shown = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Give the method's raw scores, not probabilities.")
    ] = False,
    spreadsheet: Annotated[
        bool,
        typer.Option(
            "--spreadsheet",
            help="Put ' before names in the CSV that a spreadsheet would run (=, +, -, @).",
        ),
    ] = False,
    features: Features = None,
    hints: Hints = None,
    batch_size: AtOnce = "auto",
    device: Device = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Predict labels and their probabilities for new items.

    Images that cannot be read are listed and left out. What counts as a label is decided by the
    run's thresholds, one per class, or by --threshold. Probabilities are calibrated; --raw gives
    the scores they were calibrated from, with the same labels. The CSV is not printed if
    --gallery, --copy-to or --write-xmp is given.

    Example: [bold]plusone predict runs/photos-em-seed0 new-photos --out tags.csv[/bold]
    Example: [bold]plusone predict runs/photos-em-seed0 new-photos --gallery tags.html[/bold]
    Example: [bold]plusone predict runs/photos-em-seed0 'new/**/*.jpg' more.csv --json[/bold]
    """
    from plusone.io.files import replacing
    from plusone.prediction.items import find_items
    from plusone.prediction.load import load_run
    from plusone.prediction.tags import CsvTags, JsonTags, Sink, for_spreadsheet, predict_all

    if to is not None:
        check_file(to)
    photos = PhotoOutputs(gallery, copy_to, links, write_xmp)
    photos.check()
    predictor = _shown(load_run(run, device or "auto"), crops, batch_size)
    warn_if_diverged(run)
    cuts = _thresholds(run, predictor.classes, threshold)
    if raw:
        cuts = cuts if threshold is not None else cuts.of_scores(predictor.calibration)
        predictor = predictor.raw
    items = find_items(predictor, data, features or [], form, meaning, hints)
    photos.check_items(data, items)
    total = sum(len(one) + len(one.skipped) for one in items)
    done = 0
    skipped: list[Skipped] = []
    with ExitStack() as files, progress("predicting", total) as (bar, task):
        title = f"Tags by {run.resolve().name}"
        sinks: list[Sink] = photos.sinks(files, title, predictor.classes, cuts) if photos else []
        cell = for_spreadsheet if spreadsheet else str
        if to is not None and leads():
            temporary = files.enter_context(replacing(to))
            file = files.enter_context(temporary.open("w", encoding="utf-8", newline=""))
            sinks.append(CsvTags(file, predictor.classes, cuts, cell))
        if as_json:
            sinks.append(JsonTags(sys.stdout, predictor.classes, cuts))
        elif to is None and not photos:
            cell = printable if sys.stdout.isatty() else cell
            sinks.append(CsvTags(sys.stdout, predictor.classes, cuts, cell))
        for batch in predict_all(predictor, items):
            for sink in sinks:
                sink.add(batch)
            done += len(batch.ids)
            skipped += batch.skipped
            bar.advance(task, len(batch.ids) + len(batch.skipped))
        if not done:
            _list(skipped)
            raise RunError(f"none of the {total} images could be read")
        for sink in sinks:
            sink.end(skipped)
    _list(skipped)
    say(cuts.sentence())
    say(predictor.calibration.sentence())
    if skipped:
        say(f"{len(skipped)} of {total} images skipped")
    if to is not None:
        say(f"{done} items in {to}")
    for sentence in photos.sentences():
        say(sentence)


def _shown(
    predictor: Predictor, crops: Literal["one", "five"] | None, batch_size: str
) -> Predictor:
    """The model, shown the crops that the user asks for, so many images at once."""
    predictor = replace(predictor, batch_size=most_at_once(batch_size))
    trained = predictor.recipe.crops
    if crops is None or (predictor.images and crops == trained):
        return predictor
    if trained == "one" and crops == "five":
        say(
            "note: the model was trained on whole images and is shown five crops: that finds small "
            "things, and ranks worse where a class fills the image"
        )
    return predictor.with_crops(crops)


def warn_if_diverged(run: Path) -> None:
    """Prints a warning if a run stopped early."""
    from plusone.prediction.run_folder import divergence_warning as warning

    if (sentence := warning(run)) is not None:
        say(f"warning: {sentence}")


def _list(skipped: Sequence[Skipped]) -> None:
    """Prints which images could not be read."""
    for one in skipped[:SHOWN]:
        say(f"skipped {one.id}: {one.reason}")
    if len(skipped) > SHOWN:
        say(f"... and {len(skipped) - SHOWN} more; --json lists all")


def _thresholds(run: Path, classes: Sequence[str], given: float | None) -> Thresholds:
    """The threshold of the user, or those of the run."""
    from plusone.probabilities.thresholds import Thresholds, read_thresholds

    if given is not None:
        return Thresholds.same(given, len(classes))
    return read_thresholds(run, classes)


def dataset_of(
    run: Path,
    data: str | None,
    features: list[Path] | None,
    form: str,
    meaning: str,
    hints: Path | None = None,
) -> Any:
    """The data named on the command line, or the data the run was trained on."""
    from plusone.prediction.run_folder import read_description

    if data is not None:
        return load(data, features, form, meaning, hints=hints)
    source = read_description(run).source
    if not {"data", "features", "format", "labels"} <= set(source):
        raise InputError(
            f"{run}: does not say which data it was trained on; name the data after the run"
        )
    return load(
        source["data"],
        [Path(path) for path in source["features"]],
        source["format"],
        source["labels"],
        hints=hints or (Path(source["hints"]) if "hints" in source else None),
    )


def maps(
    run: Run,
    data: Annotated[str, typer.Argument(help="An image, a folder of images, or a data set.")],
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder to write into.")],
    top: Annotated[int, typer.Option(min=1, help="Classes shown beside each image.")] = 3,
    pictures: Annotated[int, typer.Option(min=0, help="Images to draw, from the first.")] = 20,
    features: Features = None,
    device: Device = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Show where a model looked for each class (methods with maps, such as lac).

    Writes maps.npz (ids, classes, probabilities [N, L], maps [N, L, h, w]) and a picture for each
    of the first images with its most likely classes.

    Example: [bold]plusone maps runs/photos-lac-seed0 new-photos --out looked[/bold]
    """
    import numpy as np
    import torch

    from plusone.io.files import replacing
    from plusone.prediction.class_maps import class_maps
    from plusone.prediction.items import items_of
    from plusone.prediction.load import load_run
    from plusone.report.maps import strip

    check_folder(to)
    predictor = load_run(run, device or "auto")
    ids, inputs = items_of(predictor, data, features or [], form, meaning)
    if not ids:
        raise InputError(f"{data}: has no items")
    if (to / "maps.npz").exists():
        raise InputError(f"{to}: holds maps already; choose another --out")
    all_maps, scores, drawn = [], [], 0
    with progress("looking", len(ids)) as (bar, task):
        for views, likely, places in class_maps(predictor, inputs, lambda n: bar.advance(task, n)):
            to.mkdir(parents=True, exist_ok=True)
            for row in range(len(views) if predictor.images else 0):
                if drawn == pictures:
                    break
                best = likely[row].argsort(descending=True)[:top]
                titles = [f"{predictor.classes[c]} {100 * likely[row, c]:.0f} %" for c in best]
                sheet = strip(views[row], places[row, best], titles, Path(ids[drawn]).name)
                with replacing(to / f"{drawn:04d}.png") as part:
                    sheet.save(part, format="png")
                drawn += 1
            all_maps.append(places.half())
            scores.append(likely)
    with replacing(to / "maps.npz") as part, part.open("wb") as file:
        np.savez(
            file,
            allow_pickle=False,
            ids=np.asarray(ids, dtype=np.str_),
            classes=np.asarray(predictor.classes, dtype=np.str_),
            probabilities=torch.cat(scores).numpy(),
            maps=torch.cat(all_maps).numpy(),
        )
    if as_json:
        emit({"out": str(to), "items": len(ids), "pictures": drawn})
    say(f"{len(ids)} items in {to / 'maps.npz'}, {drawn} pictures beside it")


def export(
    run: Annotated[Path, typer.Argument(help="A run folder made by plusone train.")],
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write; default exports/RUN.")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Also write model.onnx, checked against torch.")
    ] = False,
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Export a trained model into a folder to share, with a model card.

    The folder has the layout of Hugging Face: README.md (the card), config.json and
    model.safetensors. plusone predict works on it as on a run. Neither names of training items nor
    places on this machine are in it.

    Example: [bold]plusone export runs/photos-em-seed0 --onnx --out photos-model[/bold]
    """
    from plusone.export.folder import STEPS, check_out, export_run

    target = to or Path("exports") / run.resolve().name
    check_folder(target)
    check_out(target)
    with progress("export", len(STEPS)) as (bar, task):

        def on_step(step: str) -> None:
            bar.update(task, description=step, completed=STEPS.index(step))

        done = export_run(run, target, onnx=onnx, on_step=on_step)
    checked = done.onnx
    if as_json:
        emit(done.to_json())
    if checked is not None:
        kind = "items of the run's data" if checked.real else "random items (its data is gone)"
        say(
            f"model.onnx differs from torch by at most {checked.difference:.1g} "
            f"on {checked.items} {kind}"
        )
    say(f"model in {target}: {', '.join(done.files)}")
    say("the licence is yours to add, at the top of README.md")
    say(f"next: plusone predict {quote(str(target))} NEW_ITEMS --out tags.csv")
