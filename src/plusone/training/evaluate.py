"""Measuring a finished model on labelled data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plusone.data.dataset import Dataset
from plusone.data.formats import read
from plusone.data.table import hold_out_validation
from plusone.errors import InputError
from plusone.metrics import Cut, evaluate
from plusone.recipe import Recipe
from plusone.results import finite
from plusone.training.build import Predictor
from plusone.training.loader import SomeInputs
from plusone.training.tagging import inputs_for
from plusone.training.task import TESTED, blockwise, sample

SPLITS = ("train", "val", "test", "all")


def check_split(split: str) -> None:
    """Refuses names of splits that do not exist."""
    if split not in SPLITS:
        raise InputError(f"the split {split!r} is not one of {', '.join(SPLITS)}")


def as_in_training(dataset: Dataset, run: Path, recipe: Recipe) -> Dataset:
    """The data of a run, with the training and validation items that the run had.

    Validation items are drawn by their number among all. An image that was mended or went bad
    since would draw others, some of which the model was trained on. Where that has happened, items
    that the run did not have are in neither split.

    Args:
        dataset: The run's own data, as it is now.
        run: The run folder.
        recipe: Its settings.
    """
    table, path = dataset.table, run / "observed.npz"
    if len(table.rows_of("val")) or not path.is_file():
        return dataset
    seen = read(path, check_images=False).table
    drawn = hold_out_validation(table, share=recipe.val_share, seed=recipe.split_seed).split
    if seen.split is None or drawn is None:
        return dataset
    had = dict(zip(seen.ids.tolist(), seen.split.tolist(), strict=True))
    before = np.array([had.get(name, "") for name in table.ids.tolist()], dtype="<U5")
    known = before != ""
    if (before[known] == drawn[known]).all():
        return dataset
    split = np.where(known, before, np.where(drawn == "test", "test", ""))
    return replace(dataset, table=replace(table, split=split))


def evaluate_run(
    predictor: Predictor,
    dataset: Dataset,
    split: str,
    *,
    threshold: Cut = 0.5,
    top_k: int = 3,
    tick: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """All metrics of a model on one split ("train", "val", "test" or "all") of a data set.

    The validation items of the model's own training are found again by its recipe. Where the
    data holds no full truth, seen positives are the positives and everything else counts as
    negative; `against` in the result says which it was. Of more items than memory is meant for a
    sample is measured (`plusone.training.task`); `of` then says how many there are.

    Classes are found by their names, in whatever order the data has them. Classes of the model
    that the data lacks are not measured; `not_measured` in the result names them.

    Raises:
        InputError: The data has a class that the model does not know.
    """
    check_split(split)
    recipe = predictor.recipe
    known = set(dataset.table.classes)
    shared = [name for name in predictor.classes if name in known]
    if len(shared) < len(known):
        raise InputError(
            f"{dataset.name}: its classes are not those of the model; "
            f"{difference(predictor.classes, dataset.table.classes)}"
        )
    table = dataset.table.with_classes(shared)
    table = hold_out_validation(table, share=recipe.val_share, seed=recipe.split_seed)
    rows = np.arange(len(table)) if split == "all" else table.rows_of(split)
    if not len(rows):
        counts = {name: len(table.rows_of(name)) for name in SPLITS[:3]}
        have = ", ".join(f"{name} ({count})" for name, count in counts.items() if count)
        raise InputError(
            f"{dataset.name}: has no items in the split {split!r}; its splits: {have}, and all"
        )
    there = len(rows)
    if (some := sample(there, len(predictor.classes), TESTED)) is not None:
        rows = rows[some]
    taken = table.take(rows)
    target = taken.labels if taken.truth is None else taken.truth
    inputs = inputs_for(predictor, dataset, rows)
    scores = blockwise(
        torch.arange(len(rows)),
        len(predictor.classes),
        lambda part: predictor.probabilities(SomeInputs(inputs, part), tick),
    )
    if len(shared) < len(predictor.classes):
        columns = [predictor.classes.index(name) for name in shared]
        scores = scores[:, columns]
        threshold = threshold if isinstance(threshold, float) else threshold[columns]
    metrics = evaluate(
        scores, target.dense() == 1, threshold=threshold, top_k=top_k, empty=recipe.empty
    )
    found: dict[str, Any] = finite(metrics)
    absent = [name for name in predictor.classes if name not in known]
    about: dict[str, Any] = {"items": len(rows)} | ({} if some is None else {"of": there})
    about["against"] = "seen" if taken.truth is None else "truth"
    return about | ({"not_measured": absent} if absent else {}) | found


def difference(expected: tuple[str, ...], given: tuple[str, ...]) -> str:
    """What is different between two class lists, in a few words."""
    missing = [name for name in expected if name not in given]
    extra = [name for name in given if name not in expected]
    parts = [f"missing: {', '.join(missing[:5])}"] if missing else []
    parts += [f"unknown: {', '.join(extra[:5])}"] if extra else []
    return "; ".join(parts)
