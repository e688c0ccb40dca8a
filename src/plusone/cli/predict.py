"""The command `predict`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file, check_folder
from plusone.cli.loading import as_asked, warn_if_diverged
from plusone.cli.printing import progress, say
from plusone.cli.processes import leads
from plusone.errors import InputError, RunError
from plusone.io.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plusone.export.tag_folders import TagFolders
    from plusone.export.xmp import XmpTags
    from plusone.prediction.items import Items, Skipped
    from plusone.prediction.load import Predictor
    from plusone.prediction.tags import Sink
    from plusone.probabilities.thresholds import Thresholds


SHOWN = 20  # skipped images that are listed
GalleryFile = Annotated[
    Path | None,
    typer.Option(
        "--gallery",
        metavar="FILE",
        help="An HTML page of the photos with tags and confidences, to filter and to sort.",
    ),
]
CopyTo = Annotated[
    Path | None,
    typer.Option(
        "--copy-to",
        metavar="FOLDER",
        help="Copy each photo into the folder of each of its tags; nothing is overwritten.",
    ),
]
Links = Annotated[
    bool, typer.Option("--links", help="With --copy-to: symbolic links instead of copies.")
]
WriteXmp = Annotated[
    bool,
    typer.Option(
        "--write-xmp",
        help="Write the tags to XMP files beside the photos (photo.jpg.xmp), for photo programs.",
    ),
]


def predict(
    run: opt.Run,
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...",
            help="Images, folders of images, patterns such as 'photos/**/*.jpg', a CSV with a "
            "column image, texts (a table with a column text, text files, folders of them), data "
            "sets, or feature npz files.",
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
    from plusone.commands import guaranteed
    from plusone.data.feature_store import features_folder
    from plusone.io.files import replacing
    from plusone.prediction.items import find_items
    from plusone.prediction.load import load_run
    from plusone.prediction.tags import CsvTags, JsonTags, for_spreadsheet, predict_all
    from plusone.probabilities.thresholds import thresholds_for

    if to is not None:
        check_file(to)
    photos = PhotoOutputs(gallery, copy_to, links, write_xmp)
    photos.check()
    predictor = as_asked(load_run(run, device or "auto"), crops, batch_size)
    warn_if_diverged(run)
    promise = guaranteed(
        run,
        predictor,
        threshold=threshold,
        precision=precision,
        recall=recall,
        per_class=per_class,
        audit=audit,
    )
    cuts = promise.thresholds if promise else thresholds_for(run, predictor.classes, threshold)
    if raw:
        cuts = cuts if threshold is not None else cuts.of_scores(predictor.calibration)
        predictor = predictor.raw
    with progress("reading", None) as (bar, task):

        def on_text(done: int, total: int) -> None:
            bar.update(task, description="encoding texts", completed=done, total=total)

        items = find_items(predictor, data, features or [], form, meaning, hints, on_text)
    photos.check_items(data, items)
    total = sum(len(one) + len(one.skipped) for one in items)
    done = 0
    skipped: list[Skipped] = []
    with ExitStack() as files, progress("predicting", total) as (bar, task):
        title = f"Tags by {run.resolve().name}"
        sinks: list[Sink] = photos.sinks(files, title, predictor, cuts) if photos else []
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
        for batch in predict_all(predictor, items, features_folder(), apart=gallery is not None):
            for sink in sinks:
                sink.add(batch)
            done += len(batch.ids)
            skipped += batch.skipped
            bar.advance(task, len(batch.ids) + len(batch.skipped))
        if not done:
            _list(skipped)
            raise RunError(f"none of the {total} items could be read")
        for sink in sinks:
            sink.end(skipped)
    _list(skipped)
    say(cuts.sentence())
    for sentence in promise.sentences if promise else ():
        say(sentence)
    say(predictor.calibration.sentence())
    if skipped:
        say(f"{len(skipped)} of {total} items skipped")
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


@dataclass
class PhotoOutputs:
    """The outputs that need photos; all can be asked for at once."""

    gallery: Path | None
    copy_to: Path | None
    links: bool
    xmp: bool
    written: list[TagFolders | XmpTags] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.gallery is not None or self.copy_to is not None or self.xmp

    def check(self) -> None:
        """Refuses outputs that cannot be written, before any work is done for them."""
        if self.links and self.copy_to is None:
            raise InputError("--links: needs --copy-to FOLDER, where the links are made")
        if self.gallery is not None:
            check_file(self.gallery, flag="--gallery")
        if self.copy_to is not None:
            check_folder(self.copy_to, flag="--copy-to")

    def check_items(self, arguments: Sequence[str], items: Sequence[Items]) -> None:
        """Refuses items that are not image files."""
        from plusone.data.shards import shard_of

        for argument, one in zip(arguments, items, strict=True):
            if self and one.inputs is not None:
                raise InputError(
                    f"{argument}: has no image files, which --gallery, --copy-to and --write-xmp "
                    "need"
                )
            if (self.copy_to is not None or self.xmp) and any(map(shard_of, one.paths[:1])):
                raise InputError(
                    f"{argument}: its photos are inside of other files, and --copy-to and "
                    "--write-xmp need photos that are files of their own; --gallery shows them"
                )
        if self.copy_to is not None:
            from plusone.export.tag_folders import refuse_own_copies

            refuse_own_copies(self.copy_to, (path for one in items for path in one.paths))

    def sinks(
        self, files: ExitStack, title: str, predictor: Predictor, cuts: Thresholds
    ) -> list[Sink]:
        """What predictions are written to; rank 0 writes."""
        from plusone.export.tag_folders import TagFolders
        from plusone.export.xmp import XmpTags
        from plusone.io.files import replacing
        from plusone.prediction.clearest import box_of
        from plusone.report.gallery import GalleryTags

        if not leads():
            return []
        if self.copy_to is not None:
            folders = TagFolders(self.copy_to, predictor.classes, cuts, links=self.links)
            self.written.append(folders)
        if self.xmp:
            self.written.append(XmpTags(cuts))
        if self.gallery is None:
            return [*self.written]
        temporary = files.enter_context(replacing(self.gallery))
        file = files.enter_context(temporary.open("w", encoding="utf-8"))
        boxes = partial(box_of, predictor)
        return [*self.written, GalleryTags(file, title, predictor.classes, cuts, boxes)]

    def sentences(self) -> list[str]:
        """What was written."""
        lines = [line for one in self.written for line in one.sentences()]
        if self.gallery is not None and leads():
            size = self.gallery.stat().st_size / 1e6
            lines.append(f"gallery in {self.gallery} ({size:.1f} MB)")
        return lines
