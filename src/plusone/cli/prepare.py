"""The command `prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_folder
from plusone.cli.printing import emit, out, say, table
from plusone.errors import InputError

if TYPE_CHECKING:
    from plusone.data.public import Prepared


FILE = "labels.npz"


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
    as_json: opt.Json = False,
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
        raise InputError("\n".join(prepared.warnings))
    write(prepared.table, to / FILE)
    if as_json:
        emit(_summary(prepared, to / FILE))
        return
    rows: list[tuple[str, object, object]] = [
        (count.what, _figure(count.found), _figure(count.expected)) for count in prepared.counts
    ]
    rows.append(("items without a positive", _figure(_without_positive(prepared)), None))
    most, least, mean = prepared.expected.per_item
    published = {"train": f"{least}, {mean}, {most}"}
    rows += [
        (f"positives of {split} items: min, mean, max", ", ".join(map(str, found.values())),
         published.get(split))
        for split, found in _per_item(prepared).items()
    ]  # fmt: skip
    out.print(table(prepared.data.title, ("", "found", "published"), rows))
    for note in prepared.table.notes:
        say(f"note: {note}")
    for warning in prepared.warnings:
        say(f"warning: {warning}")
    say(f"next: plusone train {to / FILE} --recipe recipes/{data}/gr.toml")


def _without_positive(prepared: Prepared) -> int:
    return int((prepared.table.labels.per_item(1) == 0).sum())


def _per_item(prepared: Prepared) -> dict[str, dict[str, float]]:
    """Fewest, mean and most positives of an item, for each split that has items."""
    labels, found = prepared.table, {}
    for split in ("train", "test"):
        counts = labels.labels.take(labels.rows_of(split)).per_item(1)
        if len(counts):
            mean = round(float(counts.mean()), 2)
            found[split] = {"min": int(counts.min()), "mean": mean, "max": int(counts.max())}
    return found


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:,}"


def _summary(prepared: Prepared, file: Path) -> dict[str, Any]:
    labels = prepared.table
    return {
        "out": str(file),
        "data": prepared.data.title,
        "images": None if labels.root is None else str(labels.root),
        "items": {split: len(labels.rows_of(split)) for split in ("train", "test")},
        "classes": len(labels.classes),
        "items_without_positive": _without_positive(prepared),
        "positives_per_item": _per_item(prepared),
        "counts": [
            {"what": c.what, "found": c.found, "published": c.expected, "agrees": c.fits}
            for c in prepared.counts
        ],
        "source": prepared.expected.source,
        "agrees": not prepared.differences,
        "warnings": prepared.warnings,
        "notes": list(labels.notes),
    }
