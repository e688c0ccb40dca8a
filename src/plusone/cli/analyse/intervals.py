"""The command `analyse intervals`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli.checks import check_folder
from plusone.cli.loading import load
from plusone.cli.options import Data, Form, Json, Meaning, Out, Seed
from plusone.cli.printing import emit, out, say, table
from plusone.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def intervals(
    data: Data,
    sizes: Annotated[
        str | None, typer.Option(help="Numbers of labelled items; 5,10,25 by default.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Random draws per number.")] = 10_000,
    level: Annotated[float, typer.Option(help="Share of the draws inside an interval.")] = 0.9,
    split: Annotated[str, typer.Option(help="train, val, test or all.")] = "train",
    form: Form = "auto",
    meaning: Meaning = "auto",
    to: Out = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show how precisely a few labelled items determine the positives per item (k).

    Needs data with all labels known, such as a few items labelled in full; no images or features.

    Example: [bold]plusone analyse intervals labels.csv --sizes 5,10,25[/bold]
    """
    from plusone.io.files import write_json
    from plusone.probabilities.intervals import SIZES, interval_of, k_intervals, no_interval

    if to is not None:
        check_folder(to)
    numbers = None if sizes is None else _sizes(sizes)
    name, counts, groups, classes = _positives(data, split, form, meaning)
    if numbers is None:
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


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--sizes {text}: write whole numbers, such as 5,10,25") from None


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
