"""The command `analyse surface`."""

from __future__ import annotations

from typing import Annotated

import typer

from plusone.cli.loading import dataset_of
from plusone.cli.options import Device, Features, Form, Json, Meaning, Plugin, Run, Seed
from plusone.cli.printing import emit, out, progress, say, table


def surface(
    run: Run,
    data: Annotated[str | None, typer.Argument(help="Data; the run's own by default.")] = None,
    extent: Annotated[
        float, typer.Option(help="Half the side; 1 moves a filter by its own norm.")
    ] = 1.0,
    steps: Annotated[int, typer.Option(min=3, help="Points per side, odd.")] = 21,
    items: Annotated[
        int | None,
        typer.Option(min=1, help="Training items; 2000, on images 200."),
    ] = None,
    features: Features = None,
    device: Device = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Seed = 0,
    as_json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Compute the training loss around a run's weights, along two random directions.

    Writes surface.json into the run folder; it is computed once for the same settings.

    Example: [bold]plusone analyse surface runs/digits-gr-seed0[/bold]
    """
    from plusone.report.surfaces import surface_of_run

    with progress("computing", steps * steps) as (bar, task):
        loss = surface_of_run(
            run,
            lambda: dataset_of(run, data, features, form, meaning),
            extent=extent,
            steps=steps,
            seed=seed,
            items=items,
            device=device or "auto",
            on_progress=lambda done: bar.advance(task, done),
        )
    if as_json:
        emit(loss.to_json())
        return
    rows = [
        ("training items", loss.train_items),
        ("loss of the solution", _number(loss.centre)),
        (f"mean rise at distance {loss.radius:g}", _number(loss.rise)),
    ]
    out.print(table(f"{run} ({loss.method})", ("loss surface", ""), rows))
    say(f"{run / 'surface.json'}; plusone report draws it")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
