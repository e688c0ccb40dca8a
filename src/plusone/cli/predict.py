"""The command `predict`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file
from plusone.cli.loading import as_asked, guaranteed, thresholds_for, warn_if_diverged
from plusone.cli.photos import CopyTo, GalleryFile, Links, PhotoOutputs, WriteXmp
from plusone.cli.printing import progress, say
from plusone.cli.processes import leads, printable
from plusone.errors import InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plusone.prediction.items import Skipped


SHOWN = 20  # skipped images that are listed


def predict(
    run: opt.Run,
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
    threshold: opt.ByClass = None,
    precision: opt.Precision = None,
    recall: opt.Recall = None,
    per_class: opt.EachClass = False,
    audit: opt.AuditFile = None,
    crops: opt.Shown = None,
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
    features: opt.Features = None,
    hints: opt.Hints = None,
    batch_size: opt.AtOnce = "auto",
    device: opt.Device = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Predict labels and their probabilities for new items.

    Images that cannot be read are listed and left out. What counts as a label is decided by the
    run's thresholds, one per class, or by --threshold. Probabilities are calibrated; --raw gives
    the scores they were calibrated from, with the same labels. The CSV is not printed if
    --gallery, --copy-to or --write-xmp is given.

    --precision 0.9 chooses thresholds by audited items such that at least 90 % of the predicted
    labels are right, --recall 0.9 by held-out items such that at least 90 % of the labels that
    items have are predicted, both with 90 % confidence. Where that cannot be guaranteed, nothing
    is predicted, and a sentence says what would help.

    Example: [bold]plusone predict runs/photos-em-seed0 new-photos --out tags.csv[/bold]
    Example: [bold]plusone predict runs/photos-em-seed0 new-photos --gallery tags.html[/bold]
    Example: [bold]plusone predict runs/photos-em-seed0 'new/**/*.jpg' more.csv --json[/bold]
    Example: [bold]plusone predict runs/photos-em-seed0 new --recall 0.9[/bold]
    """
    from plusone.io.files import replacing
    from plusone.prediction.items import find_items
    from plusone.prediction.load import load_run
    from plusone.prediction.tags import CsvTags, JsonTags, Sink, for_spreadsheet, predict_all

    if to is not None:
        check_file(to)
    photos = PhotoOutputs(gallery, copy_to, links, write_xmp)
    photos.check()
    predictor = as_asked(load_run(run, device or "auto"), crops, batch_size)
    warn_if_diverged(run)
    promise = None
    if precision is not None or recall is not None:
        promise = guaranteed(
            run, predictor, threshold, precision, recall, per_class=per_class, audit=audit
        )
    elif per_class or audit is not None:
        raise InputError("--per-class and --audit are for --precision or --recall")
    cuts = promise.thresholds if promise else thresholds_for(run, predictor.classes, threshold)
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
            about = None if promise is None else promise.to_json()
            sinks.append(JsonTags(sys.stdout, predictor.classes, cuts, about))
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
    for sentence in promise.sentences if promise else ():
        say(sentence)
    say(predictor.calibration.sentence())
    if skipped:
        say(f"{len(skipped)} of {total} images skipped")
    if to is not None:
        say(f"{done} items in {to}")
    for sentence in photos.sentences():
        say(sentence)


def _list(skipped: Sequence[Skipped]) -> None:
    """Prints which images could not be read."""
    for one in skipped[:SHOWN]:
        say(f"skipped {one.id}: {one.reason}")
    if len(skipped) > SHOWN:
        say(f"... and {len(skipped) - SHOWN} more; --json lists all")
