"""The command `analyse maps`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plusone.cli.checks import check_folder
from plusone.cli.options import Device, Features, Form, Json, Meaning, Plugin, Run, UnusedSeed
from plusone.cli.printing import emit, progress, say
from plusone.errors import InputError


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
    plugin: Plugin = None,
) -> None:
    """Show where a model looked for each class (methods with maps, such as lac).

    Writes maps.npz (ids, classes, probabilities [N, L], maps [N, L, h, w]) and a picture for each
    of the first images with its most likely classes.

    Example: [bold]plusone analyse maps runs/photos-lac-seed0 new-photos --out looked[/bold]
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
