"""Cross-fitting: what a model says about items it has not been trained on, for every item.

A model is over-confident on what it was trained on, above all about the labels it saw there. So the
items are dealt into folds, and each fold is predicted by a model trained on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from plusone.data.dataset import Dataset
from plusone.engine.task import make_task
from plusone.engine.training import Training
from plusone.errors import InputError
from plusone.recipe import Recipe


@dataclass(frozen=True)
class CrossFit:
    """Out-of-sample predictions.

    Args:
        rows: Rows of the data set that were dealt into folds: all but the test items, ascending.
        fold: Fold of each of them, int64 `[n]`.
        probabilities: What the models that had not seen them say, float32 `[n, L]`.
    """

    rows: npt.NDArray[np.int64]
    fold: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float32]


def cross_fit(
    dataset: Dataset,
    recipe: Recipe,
    folds: int = 5,
    *,
    on_epoch: Callable[[int], None] | None = None,
) -> CrossFit:
    """Trains one model per fold on all other items and predicts the fold.

    The labels of `dataset.table` are used as they are: observe it first if labels are to be hidden.
    Each model holds out a share of its own items to choose its epoch, as the recipe says.

    Args:
        dataset: The data; its truth, if any, is not looked at.
        recipe: The settings; the seed also deals the folds.
        folds: How many.
        on_epoch: Called with the number of the fold after every epoch.
    """
    table = replace(dataset.table, truth=None)
    rows = np.flatnonzero(np.isin(np.arange(len(table)), table.rows_of("test"), invert=True))
    if not 2 <= folds <= len(rows):
        raise InputError(f"cross-fitting needs 2 to {len(rows)} folds, not {folds}")
    settings = recipe.model_copy(update={"observe": "given", "select_on": "observed"})
    fold = np.random.default_rng(recipe.seed).permutation(len(rows)) % folds
    found = np.zeros((len(rows), len(table.classes)), dtype=np.float32)
    for number in range(folds):
        split = np.full(len(table), "unused", dtype="<U6")
        split[rows] = np.where(fold == number, "test", "train")
        task = make_task(replace(dataset, table=replace(table, split=split)), settings)
        assert task.test is not None
        training = Training(task, settings)
        for _ in training.epochs():
            if on_epoch is not None:
                on_epoch(number)
        found[fold == number] = training.predict(task.test).numpy()
    return CrossFit(rows, fold, found)
