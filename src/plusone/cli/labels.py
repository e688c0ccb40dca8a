"""Commands about labels and features: inspect, observe, features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plusone.cli.common import (
    Data,
    Features,
    Form,
    Json,
    Meaning,
    Seed,
    UnusedSeed,
    check_file,
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
    from plusone.data.inspect import Summary
    from plusone.data.table import LabelTable


def inspect(
    data: Data = "digits",
    features: Features = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    classes: Annotated[int, typer.Option(min=0, help="How many classes to list.")] = 20,
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Count what is in a data set, or list every problem found (exit code 2).

    Example: [bold]plusone inspect photos/labels.csv[/bold]
    """
    from plusone.data.inspect import summarise

    try:
        dataset = load(data, features, form, meaning)
    except InputError as error:
        if as_json:
            emit({"data": data, "problems": str(error).splitlines()})
        raise
    summary = summarise(dataset.table)
    if as_json:
        broken = [asdict(one) for one in dataset.broken]
        emit({"data": data, "problems": []} | summary.to_dict() | {"broken": broken})
        return
    _print_summary(summary, dataset.name, classes)
    for one in dataset.broken:
        say(f"left out: {one.id} {one.reason}")


def observe(
    data: Data,
    to: Annotated[Path, typer.Option("--out", "-o", help="File to write: .csv, .npz or .parquet.")],
    scheme: Annotated[
        str,
        typer.Option(
            help="single, all, positives_and_negatives(1, 1), fraction(0.5), "
            "biased((1, 2, ...)) with a weight per class, yes_no"
        ),
    ] = "single",
    seed: Seed = 1200,
    form: Form = "auto",
    meaning: Meaning = "auto",
    as_json: Json = False,
) -> None:
    """Hide labels of a fully labelled data set, as an annotator would who gives few.

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
    backbone: Annotated[str, typer.Option(help="cnn, lite0 or timm/NAME.")] = "lite0",
    size: Annotated[
        int | None, typer.Option(min=16, max=2048, help="Image side; the backbone's by default.")
    ] = None,
    aspect: Annotated[
        Literal["stretch", "crop"], typer.Option(help="stretch to a square, or crop the middle.")
    ] = "stretch",
    weights: Annotated[
        str, typer.Option(help="auto: the backbone's own; random; or a local file.")
    ] = "auto",
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Keep every place of the feature map (for lac).")
    ] = False,
    workers: Annotated[int, typer.Option(min=0, help="Processes that decode images.")] = 2,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Extract features of all images once, for training in seconds afterwards.

    A stopped extraction goes on where it was.

    Example: [bold]plusone features photos --backbone lite0 --out photos.npz[/bold]
    """
    from plusone.models.backbones import backbone_for
    from plusone.training.features import extract_to_file

    check_file(to)
    if weights == "random" or (weights == "auto" and not backbone_for(backbone).pretrained):
        say(f"note: {backbone} begins with random weights; its features say little")
    dataset = load(data, None, form, meaning)
    again = going_on("run the same command again to go on")
    with again, progress("extracting", len(dataset.table)) as (bar, task):
        result = extract_to_file(
            dataset,
            to,
            backbone,
            size,
            workers,
            lambda done: bar.update(task, completed=done),
            aspect=aspect,
            weights=weights,
            tokens=tokens,
        )
    if as_json:
        emit(result)
        return
    say(f"{result['items']} items, {result['dim']} features each, in {to}")
    say(f"next: plusone train {data} --features {to}")


def _print_summary(summary: Summary, name: str, classes: int) -> None:
    """The summary as two tables: the whole, then the classes."""
    seen, true = summary.positives, summary.true_positives
    rows: list[tuple[str, object]] = [
        ("items", summary.items),
        ("classes", summary.classes),
        ("splits", _list(summary.splits)),
        ("image files", "yes" if summary.images else "no"),
        ("seen positives per item", f"{seen.least} to {seen.most}, mean {seen.mean:.2f}"),
        ("items by seen positives", _list(seen.items)),
        ("seen negatives", summary.seen_negatives),
        ("unobserved labels", f"{percent(summary.unobserved_share)} %"),
        ("items without a positive", summary.rows_without_positive),
        ("items with several positives", summary.rows_with_several),
        ("all labels known", "yes" if summary.truth else "no"),
    ]
    if true is not None:
        rows.append(
            ("all positives per item", f"{true.least} to {true.most}, mean {true.mean:.2f}")
        )
    rows += [(f"observation: {key}", value) for key, value in summary.observation.items()]
    rows.append(
        ("classes without a positive", ", ".join(summary.classes_without_positive) or "none")
    )
    rows.append(("problems", "none"))
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


def _list(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{key}: {count}" for key, count in counts.items()) or "none"
