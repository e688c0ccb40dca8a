"""The command `batch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from plusone.cli import options as opt
from plusone.cli.printing import emit, progress, say
from plusone.errors import InputError, RunError


def batch(
    source: Annotated[
        str,
        typer.Argument(
            help="A folder, a quoted pattern or a file: parquet with a column of images or "
            "vectors, or image files. A path, or a URL that fsspec knows (s3://, gs://, hf://)."
        ),
    ],
    to: Annotated[str, typer.Option("--out", "-o", help="Folder, or URL, for the parquet files.")],
    run: Annotated[
        Path | None, typer.Option("--run", help="Run or export whose tags are computed.")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="Backbone whose features are computed: lite0, timm/NAME, ..."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(min=16, max=2048, help="Image side for features; the backbone's by default."),
    ] = None,
    crops: opt.Shown = None,
    threshold: opt.ByClass = None,
    engine: Annotated[
        Literal["processes", "ray"],
        typer.Option(help="processes of this machine, or ray: the cluster of RAY_ADDRESS."),
    ] = "processes",
    workers: Annotated[
        int,
        typer.Option(min=0, max=4096, help="Models that compute at a time; 0: in this process."),
    ] = 1,
    gpus: Annotated[
        float, typer.Option(min=0, max=64, help="Cards of each worker, with --engine ray.")
    ] = 0,
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Image files of a part.")] = 4096,
    device: opt.Device = None,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Compute features or tags of items on any storage, as parquet files.

    Give --run for tags, or --backbone for features. Each piece of the source becomes a parquet
    file of its own; a job that was stopped continues when it is run again. Items that cannot be
    read have a reason in the column error.

    Example: [bold]plusone batch photos/ --run runs/photos --out tags --workers 2[/bold]
    Example: [bold]plusone batch 's3://shop/*.parquet' --backbone lite0 --out s3://shop/x[/bold]
    Example: [bold]plusone batch s3://shop/photos --run model --out s3://shop/tags --engine ray
    --workers 8 --gpus 1[/bold]
    """
    from plusone.batch import Job, run_job

    settings: dict[str, Any] = {"device": device or "auto"}
    if (run is None) == (backbone is None):
        raise InputError("give --run for tags, or --backbone for features")
    if run is not None:
        if size is not None:
            raise InputError("--size is for --backbone; a run has its own")
        settings |= {"run": str(run.resolve()), "threshold": threshold, "crops": crops}
    else:
        if threshold is not None:
            raise InputError("--threshold is for --run")
        settings |= {"backbone": backbone, "size": size, "crops": crops or "one"}
    job = Job("features" if run is None else "tags", tuple(settings.items()), source, to, rows)
    pieces, held, finished = run_job(job, engine, workers, gpus)
    items = unread = 0
    with progress("computing", pieces) as (bar, task):
        bar.advance(task, held)
        for one in finished:
            items, unread = items + one.rows, unread + one.errors
            bar.advance(task, 1)
    if items and unread == items:
        raise RunError(f"none of the {items} items could be read; the column error says why")
    if as_json:
        emit({"out": to, "parts": pieces, "held": held, "items": items, "unread": unread})
        return
    if held:
        say(f"{held} of {pieces} parts were there")
    if unread:
        say(f"{unread} of {items} items could not be read: see the column error")
    say(f"{items} items in {pieces - held} new parts in {to}")
