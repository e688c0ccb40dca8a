"""Commands about data: example, prepare, inspect, observe, features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plusone.cli.common import (
    AtOnce,
    Data,
    Device,
    Features,
    Form,
    Hints,
    Json,
    Meaning,
    Seed,
    UnusedSeed,
    check_file,
    check_folder,
    emit,
    load,
    most_at_once,
    out,
    percent,
    progress,
    resume_hint,
    say,
    table,
)
from plusone.errors import InputError

if TYPE_CHECKING:
    from plusone.data.inspect import Summary
    from plusone.data.public import Prepared
    from plusone.data.table import LabelTable


FILE = "labels.npz"
AUDITED = 100
NEW = 50


def example(
    folder: Annotated[Path, typer.Argument(help="Folder to make.")] = Path("example"),
    items: Annotated[int, typer.Option(min=AUDITED, help="Pictures with one tag.")] = 1000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Make a folder of pictures with one tag each, to try everything on.

    The pictures are scenes of handwritten digits. Beside them: the tags as CSV, embeddings, an
    audit (all labels of a few pictures) and new pictures without tags.

    Example: [bold]plusone example[/bold], then [bold]plusone train example/photos[/bold]
    """
    check_folder(folder)
    from plusone.data.example import write_example

    with progress("writing", items + NEW) as (bar, task):
        write_example(
            folder, items, audited=AUDITED, new=NEW, seed=seed, tick=lambda: bar.advance(task)
        )
    if as_json:
        emit({"out": str(folder), "items": items, "audited": AUDITED, "new": NEW})
        return
    say(f"{items} pictures with one tag each in {folder / 'photos'}")
    say(f"next: plusone train {folder / 'photos'}")


def prepare(
    data: Annotated[str, typer.Argument(help="voc, coco, nuswide or cub.")],
    root: Annotated[Path, typer.Argument(help="Folder of the downloaded, unpacked files.")],
    to: Annotated[Path, typer.Option("--out", "-o", help=f"Folder to write {FILE} into.")],
    split: Annotated[
        str, typer.Option(help="papers, or official (NUS-WIDE: its own two parts).")
    ] = "papers",
    missing: Annotated[
        str | None,
        typer.Option(
            help="Items without image file: refuse, drop or keep; nuswide drops by default."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Other counts than the papers' are an error.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of NUS-WIDE's random split.")
    ] = 1200,
    as_json: Json = False,
) -> None:
    """Make a label table of a public data set, and check it against the papers' counts.

    Images stay where they are. docs/datasets.md says where each data set is obtained.

    Example: [bold]plusone prepare voc VOCdevkit --out voc[/bold], then
    [bold]plusone train voc/labels.npz --recipe recipes/voc/gr.toml[/bold]
    """
    from plusone.data.formats import write
    from plusone.data.public import prepare as read

    check_folder(to)
    prepared = read(data, root, split=split, missing=missing, seed=seed)
    if strict and prepared.differences:
        raise InputError("\n".join(count_warnings(prepared)))
    write(prepared.table, to / FILE)
    if as_json:
        emit(_summary(prepared, to / FILE))
        return
    rows: list[tuple[str, object, object]] = [
        (count.what, _figure(count.found), _figure(count.expected)) for count in prepared.counts
    ]
    rows.append(("items without a positive", _figure(_without_positive(prepared)), None))
    out.print(table(prepared.data.title, ("", "found", "published"), rows))
    for note in prepared.table.notes:
        say(f"note: {note}")
    for warning in count_warnings(prepared):
        say(f"warning: {warning}")
    say(f"next: plusone train {to / FILE} --recipe recipes/{data}/gr.toml")


def count_warnings(prepared: Prepared) -> list[str]:
    """One sentence for each count that is not the published one."""
    source = prepared.expected.source
    return [f"{prepared.data.title}, {count.sentence} ({source})" for count in prepared.differences]


def _without_positive(prepared: Prepared) -> int:
    return int((prepared.table.labels.per_item(1) == 0).sum())


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:,}"


def _summary(prepared: Prepared, file: Path) -> dict[str, Any]:
    """The output of `--json`."""
    labels = prepared.table
    return {
        "out": str(file),
        "data": prepared.data.title,
        "images": None if labels.root is None else str(labels.root),
        "items": {split: len(labels.rows_of(split)) for split in ("train", "test")},
        "classes": len(labels.classes),
        "items_without_positive": _without_positive(prepared),
        "counts": [
            {"what": c.what, "found": c.found, "published": c.expected, "agrees": c.fits}
            for c in prepared.counts
        ],
        "source": prepared.expected.source,
        "agrees": not prepared.differences,
        "warnings": count_warnings(prepared),
        "notes": list(labels.notes),
    }


def inspect(
    data: Data = "digits",
    features: Features = None,
    hints: Hints = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    classes: Annotated[int, typer.Option(min=0, help="How many classes to list.")] = 20,
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Summarise a data set, or list every problem in it (exit code 2).

    Example: [bold]plusone inspect photos/labels.csv[/bold]
    """
    from plusone.data.inspect import summarise

    try:
        dataset = load(data, features, form, meaning, hints=hints)
    except InputError as error:
        if as_json:
            emit({"data": data, "problems": str(error).splitlines()})
        raise
    summary, auc = summarise(dataset.table), _hint_auc(dataset.table)
    if as_json:
        broken = [asdict(one) for one in dataset.broken]
        more = {"broken": broken} | ({} if summary.hints is None else {"hint_auc": auc})
        emit({"data": data, "problems": []} | summary.to_dict() | more)
        return
    _print_summary(summary, dataset.name, classes, auc)
    for one in dataset.broken:
        say(f"left out: {one.id} {one.reason}")


def observe(
    data: Data,
    to: Annotated[Path, typer.Option("--out", "-o", help="File to write: .csv, .npz or .parquet.")],
    scheme: Annotated[
        str,
        typer.Option(
            help="single, all, positives_and_negatives(1, 1), fraction(0.5), "
            "biased((1, 2, ...)) with a weight per class, yes_no, frequent(1.0), "
            "named('weights.csv'), size('instances.json'), location(...), dominant(...)"
        ),
    ] = "single",
    seed: Seed = 1200,
    form: Form = "auto",
    meaning: Meaning = "auto",
    as_json: Json = False,
) -> None:
    """Hide labels of a fully labelled data set, to simulate an annotator who gives few.

    Example: [bold]plusone observe labels.csv --scheme single --out single.csv[/bold]
    """
    from plusone.data.formats import write
    from plusone.data.observation import observe_table

    check_file(to)
    observed = observe_table(_labels_only(data, form, meaning), scheme, seed)
    write(observed, to)
    result = {
        "out": str(to),
        "items": len(observed),
        "seen_positives": int(observed.labels.per_item(1).sum()),
        "seen_negatives": int(observed.labels.per_item(-1).sum()),
        **observed.observation,
    }
    if as_json:
        emit(result)
        return
    out.print(table("", ("observed", ""), list(result.items()), text=2))


def _labels_only(data: str, form: str, meaning: str) -> LabelTable:
    """The labels of all items, whether or not their images can be read."""
    return load(data, None, form, meaning, check_images=False).table


def features(
    data: Data,
    to: Annotated[Path, typer.Option("--out", "-o", help="The npz file to write.")],
    backbone: Annotated[str, typer.Option(help="cnn, lite0, lite1, lite2 or timm/NAME.")] = "lite0",
    size: Annotated[
        int | None, typer.Option(min=16, max=2048, help="Image side; the backbone's by default.")
    ] = None,
    aspect: Annotated[
        Literal["stretch", "crop"], typer.Option(help="stretch to a square, or crop the middle.")
    ] = "stretch",
    crops: Annotated[
        Literal["one", "five"],
        typer.Option(help="The whole image, or the mean of the whole and four tiles."),
    ] = "one",
    weights: Annotated[
        str, typer.Option(help="auto: the backbone's own; random; or a local file.")
    ] = "auto",
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Keep every place of the feature map (for lac).")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that decode images; by the cores by default."),
    ] = None,
    batch_size: AtOnce = "auto",
    device: Device = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Extract features of all images once, for training in seconds afterwards.

    A stopped extraction continues where it was.

    Example: [bold]plusone features photos --backbone lite0 --out photos.npz[/bold]
    """
    from plusone.features.extraction import extract_to_file
    from plusone.models.backbones import backbone_for

    check_file(to)
    if weights == "random" or (weights == "auto" and not backbone_for(backbone).pretrained):
        say(f"note: {backbone} starts with random weights; its features carry little information")
    dataset = load(data, None, form, meaning)
    again = resume_hint("run the same command again to continue")
    with again, progress("extracting", len(dataset.table)) as (bar, task):
        result = extract_to_file(
            dataset,
            to,
            backbone,
            size,
            "auto" if workers is None else workers,
            lambda done: bar.update(task, completed=done),
            aspect=aspect,
            crops=crops,
            weights=weights,
            tokens=tokens,
            batch_size=most_at_once(batch_size),
            device=device or "auto",
        )
    if as_json:
        emit(result.to_json())
        return
    say(f"{result.items} items, {result.dim} features each, in {to}")
    say(f"next: plusone train {data} --features {to}")


def _hint_auc(labels: LabelTable) -> float | None:
    """How well hints rank the seen positives of a class above its other items."""
    import numpy as np

    from plusone.metrics.seen_labels import seen_auc

    if labels.hints is None:
        return None
    known = ~np.isnan(labels.hints)
    rows, columns = known.any(axis=1), known.any(axis=0)
    seen = labels.labels.dense(np.flatnonzero(rows))[:, columns]
    if not (seen == 1).any():
        return None
    return seen_auc(np.nan_to_num(labels.hints[rows][:, columns], nan=0.0), seen)


def hints(
    data: Data,
    to: Annotated[Path, typer.Option("--out", "-o", help="The npz file to write.")],
    model: Annotated[
        str,
        typer.Option(
            help="conse (from packages, no download), a CLIP or SigLIP model of transformers "
            "(folder or hub name), or open_clip:ARCHITECTURE/WEIGHTS."
        ),
    ] = "conse",
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            "--prompt",
            metavar="TEXT",
            help="Text of a class with {} for its name; several are averaged. By the model by "
            "default.",
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Of the softmax over classes; by the model by default.")
    ] = None,
    scores: Annotated[
        Literal["softmax", "sigmoid"],
        typer.Option(help="Over the classes, or each by itself (SigLIP)."),
    ] = "softmax",
    tiles: Annotated[
        int,
        typer.Option(min=0, max=8, help="Also look at this many tiles to a side (DAMP: 4)."),
    ] = 0,
    eta: Annotated[
        float, typer.Option(min=0, max=1, help="Above which the best tile decides, else the worst.")
    ] = 0.0,
    features: Features = None,
    device: Device = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Score all images for all classes with a model that knows texts.

    The result is a hint file for --hints. A stopped command continues where it was.
    conse also takes features of lite0 instead of images (-x), which takes seconds.

    Example: [bold]plusone hints photos --out hints.npz[/bold]
    Example: [bold]plusone hints photos --model openai/clip-vit-base-patch16 --tiles 4
    --out hints.npz[/bold]
    """
    from plusone.features.zero_shot_hints import HintSettings, make_hints

    check_file(to)
    if temperature is not None and temperature <= 0:
        raise InputError(f"--temperature {temperature:g}: must be above 0")
    settings = HintSettings(model, tuple(prompts or ()), temperature, scores, tiles, eta)
    dataset = load(data, features, form, meaning)
    again = resume_hint("run the same command again to continue")
    with again, progress("scoring", len(dataset.table)) as (bar, task):
        about = make_hints(
            dataset,
            to,
            settings,
            device=device or "auto",
            on_progress=lambda done: bar.update(task, completed=done),
        )
    if as_json:
        sizes = {"items": len(dataset.table), "classes": len(dataset.table.classes)}
        emit({"out": str(to)} | sizes | about)
        return
    say(f"{len(dataset.table)} items, {len(dataset.table.classes)} classes in {to}")
    words = " ".join([data, *(f"-x {path}" for path in features or ()), f"--hints {to}"])
    say(f"next: plusone inspect {words}")
    say(f"      plusone train {words} -m gpr")


def _print_summary(summary: Summary, name: str, classes: int, hint_auc: float | None) -> None:
    """The summary as two tables: the whole, then the classes."""
    seen, true = summary.positives, summary.true_positives
    rows: list[tuple[str, object]] = [
        ("items", summary.items),
        ("classes", summary.classes),
        ("splits", _list(summary.splits)),
        *_group_rows(summary),
        ("image files", "yes" if summary.images else "no"),
        ("seen positives per item", f"{seen.least} to {seen.most}, mean {seen.mean:.2f}"),
        ("items by seen positives", _list(seen.items)),
        ("seen negatives", summary.seen_negatives),
        ("unobserved labels", f"{percent(summary.unobserved_share)} %"),
        ("items without a positive", summary.rows_without_positive),
        ("items with several positives", summary.rows_with_several),
        ("all labels known", "yes" if summary.truth else "no"),
        *_hint_rows(summary, hint_auc),
    ]
    if true is not None:
        rows.append(
            ("all positives per item", f"{true.least} to {true.most}, mean {true.mean:.2f}")
        )
    rows += [(f"observation: {key}", value) for key, value in summary.observation.items()]
    rows.append(
        ("classes without a positive", ", ".join(summary.classes_without_positive) or "none")
    )
    rows.append(("problems", "see the warnings below" if summary.warnings else "none"))
    out.print(table(name, ("what", ""), rows, text=2))
    columns = ("class", "seen positive", "seen negative", "all positives")
    counts = [
        (row.name, row.seen_positive, row.seen_negative, row.true_positive)
        for row in summary.per_class
    ]
    if classes:
        out.print(table("", columns, counts[:classes]))
    if len(counts) > classes:
        say(f"... and {len(counts) - classes} more classes (--classes N shows more)")
    for note in summary.notes:
        say(f"note: {note}")
    for warning in summary.warnings:
        say(f"warning: {warning}")


def _group_rows(summary: Summary) -> list[tuple[str, object]]:
    if summary.groups is None:
        return []
    mean = summary.items / max(summary.groups, 1)
    rows: list[tuple[str, object]] = [
        ("groups", f"{summary.groups}, of {mean:.1f} items, at most {summary.largest_group}")
    ]
    if summary.divided_groups:
        rows.append(("groups in several splits", summary.divided_groups))
    return rows


def _hint_rows(summary: Summary, auc: float | None) -> list[tuple[str, object]]:
    if summary.hints is None:
        return []
    return [
        ("items with hints", _list(summary.hints.items)),
        ("classes with hints", summary.hints.classes),
        ("AUC of hints on seen labels", f"{percent(auc)} % (50 % is chance)"),
    ]


def _list(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{key}: {count}" for key, count in counts.items()) or "none"
