"""What a finished run brings along for suggestions: the labels it saw, its backbone, an audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from plusone.data.dataset import Dataset
from plusone.data.formats import read
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.recipe import Recipe
from plusone.training.build import load_run
from plusone.training.crossfit import pooled
from plusone.training.evaluate import difference
from plusone.training.task import apply_observation


def run_labels(run: Path, given: LabelTable, recipe: Recipe) -> LabelTable:
    """The table with the labels that the run saw, where it has the run's items.

    Args:
        run: The run folder.
        given: The data, of the run or other data of the same classes.
        recipe: The run's settings, which also say what is seen of items that the run did not have.
    """
    seen = read(run / "observed.npz").table
    if set(seen.classes) != set(given.classes):
        raise InputError(
            f"{run}: was trained on other classes than the data has; in the data "
            f"{difference(seen.classes, given.classes)}"
        )
    table = apply_observation(given.with_classes(seen.classes), recipe)
    rows = {name: row for row, name in enumerate(table.ids.tolist())}
    pairs = [(rows[name], row) for row, name in enumerate(seen.ids.tolist()) if name in rows]
    if not pairs:
        return table
    at, source = np.array(pairs, dtype=np.int64).T
    order = np.arange(len(table))
    order[at] = len(table) + source
    labels = table.labels
    stacked = LabelMatrix.concatenate([labels, seen.labels.with_default(labels.default)])
    return replace(table, labels=stacked.take(order))


def read_audit(path: Path) -> LabelTable:
    """An audit: a label table of any form."""
    return read(path, check_images=False).table


def head_only(
    run: Path,
    dataset: Dataset,
    recipe: Recipe,
    tick: Callable[[int], None] | None = None,
    keep: Path | None = None,
) -> tuple[Dataset, Recipe]:
    """The data as features of the run's own backbone, and a recipe that trains a head on them.

    The backbone of a fine-tuned run was trained on these very items. Features stay as they are.

    Args:
        run: The run folder.
        dataset: Images.
        recipe: The run's settings.
        tick: Called with the number of items whose features were just extracted.
        keep: A folder for the features.
    """
    predictor = load_run(run)
    if not predictor.images:
        raise InputError(
            f"{run}: was trained on features, so --linear changes nothing; leave it out"
        )
    update = {"mode": "linear", "stages": (), "epochs": None}
    made = pooled(dataset, recipe, predictor.model, tick=tick, keep=keep)
    return made, recipe.model_copy(update=update)
