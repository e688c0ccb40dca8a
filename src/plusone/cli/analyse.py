"""Compute what the papers analyse beside their tables of figures.

Example: [bold]plusone analyse gradients em gr hill an[/bold]
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_folder
from plusone.cli.loading import dataset_of, load
from plusone.cli.printing import emit, out, progress, say, table
from plusone.errors import InputError
from plusone.extras import install_command

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from plusone.report.gradients import Gradients


def surface(
    run: opt.Run,
    data: Annotated[str | None, typer.Argument(help="Data; the run's own by default.")] = None,
    extent: Annotated[
        float, typer.Option(help="Half the side; 1 moves a filter by its own norm.")
    ] = 1.0,
    steps: Annotated[int, typer.Option(min=3, help="Points per side, odd.")] = 21,
    items: Annotated[
        int | None,
        typer.Option(min=1, help="Training items; 2000, on images 200."),
    ] = None,
    features: opt.Features = None,
    device: opt.Device = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
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


def intervals(
    data: opt.Data,
    sizes: Annotated[
        str | None, typer.Option(help="Numbers of labelled items; 5,10,25 by default.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Random draws per number.")] = 10_000,
    level: Annotated[float, typer.Option(help="Share of the draws inside an interval.")] = 0.9,
    split: Annotated[str, typer.Option(help="train, val, test or all.")] = "train",
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    to: opt.Out = None,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Show how precisely a few labelled items determine the positives per item (k).

    Needs data with all labels known, such as a few items labelled in full; no images or features.

    Example: [bold]plusone analyse intervals labels.csv --sizes 5,10,25[/bold]
    """
    from plusone.io.files import write_json
    from plusone.probabilities.intervals import SIZES, interval_of, k_intervals, no_interval

    if to is not None:
        check_folder(to)
    numbers = opt.parts(sizes, int, "--sizes")
    name, counts, groups, classes = _positives(data, split, form, meaning)
    if not numbers:
        numbers = [size for size in SIZES if size <= len(counts)] or [len(counts)]
    ranges = k_intervals(counts, numbers, draws=draws, seed=seed, level=level)
    estimate = interval_of(counts, draws=draws, seed=seed, level=level, groups=groups)
    result = {"kind": "intervals", "data": name, "split": split, "classes": classes}
    result |= ranges.to_dict() | {"estimate": estimate.to_dict()}
    if to is not None:
        write_json(to / "intervals.json", result)
        say(f"{to / 'intervals.json'}")
    if as_json:
        emit(result)
        return
    rows = [(row.size, f"{row.low:.2f}", f"{row.high:.2f}") for row in ranges.rows]
    title = f"{name} ({split})"
    out.print(table(title, ("labelled items", "k from", "to"), rows))
    say(f"{100 * level:g} % of {draws} random samples of this size give a k in this range")
    if estimate.low is None:
        ends = no_interval(estimate.groups)
    else:
        ends = f"if they are a sample of more, {estimate.low:.2f} to {estimate.high:.2f}"
    say(
        f"k = {estimate.k:.2f} on all {estimate.items} items; {ends}; train with "
        f"--set expected_positives={estimate.k:.2f}"
    )


def _positives(
    data: str, split: str, form: str, meaning: str
) -> tuple[str, npt.NDArray[np.int64], npt.NDArray[np.str_] | None, int]:
    """Name of the data, positives and group of each item of a split, and number of classes."""
    import numpy as np

    from plusone.data.formats import read
    from plusone.data.source import EMBEDDED
    from plusone.prediction.evaluate import check_split

    check_split(split)
    if data in EMBEDDED:
        dataset = load(data, None, form, meaning)
    else:
        dataset = read(Path(data), format=form, labels=meaning, check_images=False)
    labels = dataset.table
    if labels.truth is None:
        raise InputError(
            f"{dataset.name}: not all labels are known, so positives cannot be counted; if zeros "
            "mean negative, say --labels complete"
        )
    rows = np.arange(len(labels)) if split == "all" else labels.rows_of(split)
    if not len(rows):
        raise InputError(f"{dataset.name}: has no items in the split {split!r}; try --split all")
    groups = None if labels.groups is None else labels.groups[rows]
    return dataset.name, labels.truth.take(rows).per_item(1), groups, len(labels.classes)


def gradients(
    methods: Annotated[list[str], typer.Argument(help="Methods, such as em gr hill an.")],
    epoch: Annotated[
        list[int] | None,
        typer.Option("--epoch", min=1, help="Epoch to show (repeatable); first and last."),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of the run.")] = 10,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="METHOD.NAME=VALUE", help="A method's option (repeatable)."
        ),
    ] = None,
    classes: Annotated[int, typer.Option(min=3, help="Labels of an item.")] = 20,
    k: Annotated[float, typer.Option("--k", min=1, help="Expected positives of an item.")] = 1.5,
    rest: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Probability of the other labels.")
    ] = 0.5,
    to: opt.Out = None,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Show the gradient of losses against the probability of a label; nothing is trained.

    Writes gradients.json and a figure into the folder of --out.

    Example: [bold]plusone analyse gradients em gr hill an --out gradients[/bold]
    """
    from plusone.report.gradients import gradient_curves

    if to is not None:
        check_folder(to)
    gradients = gradient_curves(
        methods,
        at=epoch or sorted({1, epochs}),
        epochs=epochs,
        options=_method_options(settings or []),
        classes=classes,
        k=k,
        rest=rest,
    )
    if to is not None:
        _write_gradients(gradients, to)
    if as_json:
        emit(gradients.to_json())
    elif to is None:
        _print_gradients(gradients)


def _method_options(texts: list[str]) -> dict[str, dict[str, Any]]:
    """Method -> options, from `method.name=value` texts."""
    from plusone.recipe import parse_settings

    options: dict[str, dict[str, Any]] = {}
    for name, value in parse_settings(texts).items():
        method, dot, option = name.partition(".")
        if not dot or not option:
            raise InputError(f"--set {name}: write it as method.option=value, such as gr.w=2")
        options.setdefault(method, {})[option] = value
    return options


def _write_gradients(gradients: Gradients, folder: Path) -> None:
    from plusone.io.files import write_json

    try:
        from plusone.report.gradients import gradient_regimes
        from plusone.report.page import save_figure

        figure = gradient_regimes(gradients)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise InputError(
            f"figures need matplotlib: {install_command('plots')}; without --out there is a table"
        ) from None
    write_json(folder / "gradients.json", gradients.to_json())
    for path in (folder / "gradients.json", *save_figure(figure, folder, "gradients")):
        say(str(path))


def _print_gradients(gradients: Gradients) -> None:
    from plusone.report.gradients import SHOWN, at_probabilities

    columns = ("d loss / d logit", *(f"p {value:g}" for value in SHOWN))
    for title, side in (("an unobserved label", "unobserved"), ("a seen positive", "observed")):
        rows = []
        for curve in gradients.curves:
            grad = getattr(curve, side).grad
            mark = "" if curve.independent else " *"
            values = [f"{value + 0.0:.3f}" for value in at_probabilities(gradients, grad)]
            rows.append((curve.marked + mark, *values))
        out.print(table(title, columns, rows))
    say("above 0 the loss pushes the probability down, below 0 up")
    if not all(curve.independent for curve in gradients.curves):
        say(f"* depends on the other labels, whose probability is {gradients.rest:g} here (--rest)")
    if any(curve.of_batch for curve in gradients.curves):
        say("alone in its batch: the curve changes with the other items of the batch")


def maps(
    run: opt.Run,
    data: Annotated[str, typer.Argument(help="An image, a folder of images, or a data set.")],
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder to write into.")],
    top: Annotated[int, typer.Option(min=1, help="Classes shown beside each image.")] = 3,
    pictures: Annotated[int, typer.Option(min=0, help="Images to draw, from the first.")] = 20,
    features: opt.Features = None,
    device: opt.Device = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Show where a model looked for each class (methods with maps, such as lac).

    Writes maps.npz (ids, classes, probabilities [N, L], maps [N, L, h, w]) and a picture for each
    of the first images with its most likely classes.

    Example: [bold]plusone analyse maps runs/photos-lac-seed0 new-photos --out looked[/bold]
    """
    import numpy as np
    import torch

    from plusone.io.files import replacing
    from plusone.prediction.items import items_of
    from plusone.prediction.load import load_run
    from plusone.report.maps import class_maps, strip

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
