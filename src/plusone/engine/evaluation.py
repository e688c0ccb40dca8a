"""Measuring a finished model on labelled data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plusone.data.dataset import Dataset
from plusone.data.table import hold_out_validation
from plusone.engine.build import Predictor
from plusone.engine.items import inputs_for
from plusone.engine.run_files import finite
from plusone.errors import InputError
from plusone.metrics import evaluate
from plusone.metrics.inputs import Cut

SPLITS = ("train", "val", "test", "all")


def check_split(split: str) -> None:
    """Refuses names of splits that do not exist."""
    if split not in SPLITS:
        raise InputError(f"the split {split!r} is not one of {', '.join(SPLITS)}")


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
    negative; `against` in the result says which it was.
    """
    check_split(split)
    recipe = predictor.recipe
    if dataset.table.classes != predictor.classes:
        raise InputError(
            f"{dataset.name}: its classes are not those of the model; "
            f"{difference(predictor.classes, dataset.table.classes)}"
        )
    table = hold_out_validation(dataset.table, share=recipe.val_share, seed=recipe.split_seed)
    rows = np.arange(len(table)) if split == "all" else table.rows_of(split)
    if not len(rows):
        counts = {name: len(table.rows_of(name)) for name in SPLITS[:3]}
        there = ", ".join(f"{name} ({count})" for name, count in counts.items() if count)
        raise InputError(
            f"{dataset.name}: has no items in the split {split!r}; its splits: {there}, and all"
        )
    taken = table.take(rows)
    target = taken.labels if taken.truth is None else taken.truth
    inputs = inputs_for(predictor, dataset, rows)
    scores = predictor.probabilities(inputs, tick)
    metrics = evaluate(
        scores, target.dense() == 1, threshold=threshold, top_k=top_k, empty=recipe.empty
    )
    found: dict[str, Any] = finite(metrics)
    return {"items": len(rows), "against": "seen" if taken.truth is None else "truth"} | found


def difference(expected: tuple[str, ...], given: tuple[str, ...]) -> str:
    """What is different between two class lists, in a few words."""
    missing = [name for name in expected if name not in given]
    extra = [name for name in given if name not in expected]
    parts = [f"missing: {', '.join(missing[:5])}"] if missing else []
    parts += [f"unknown: {', '.join(extra[:5])}"] if extra else []
    return "; ".join(parts) or "the order differs"
