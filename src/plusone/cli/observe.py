"""The command `observe`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file
from plusone.cli.loading import load
from plusone.cli.printing import emit, out, say, table


def observe(
    data: opt.Data,
    to: Annotated[Path, typer.Option("--out", "-o", help="File to write: .csv, .npz or .parquet.")],
    scheme: Annotated[
        str,
        typer.Option(
            help="single, all, positives_and_negatives(1, 1), fraction(0.5), partial(0.1), "
            "biased((1, 2, ...)) with a weight per class, yes_no, frequent(1.0), "
            "named('weights.csv'); by the boxes of a COCO instances file or VOC's folder "
            "Annotations: size('FILE') in proportion to area, dominant('FILE') the largest, "
            "location('FILE') by distance from the centre"
        ),
    ] = "single",
    seed: opt.Seed = 1200,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Hide labels of a fully labelled data set, to simulate an annotator who gives few.

    Example: [bold]plusone observe labels.csv --scheme single --out single.csv[/bold]
    Example: [bold]plusone observe VOCdevkit --scheme "size('VOCdevkit/VOC2012')" -o seen.npz[/bold]
    """
    from plusone.data.formats import write
    from plusone.data.observation import observe_table

    check_file(to)
    labels = load(data, None, form, meaning, check_images=False).table
    observed = observe_table(labels, scheme, seed)
    write(observed, to)
    result = {
        "out": str(to),
        "items": len(observed),
        "seen_positives": int(observed.labels.per_item(1).sum()),
        "seen_negatives": int(observed.labels.per_item(-1).sum()),
        **observed.observation,
    }
    if without := observed.observation.get("without_boxes"):
        say(
            f"warning: {without} items with several positives have no box (first: "
            f"{observed.observation['first_without']}); one of them is picked uniformly. Add their "
            "annotations, or remove the items."
        )
    if as_json:
        emit(result)
        return
    out.print(table("", ("observed", ""), list(result.items()), text=2))
