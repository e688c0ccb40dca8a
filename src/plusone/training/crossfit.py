"""Cross-fitting: out-of-sample predictions for every item.

A model is over-confident on its training items, above all about their observed labels. So the items
are divided into folds, and each fold is predicted by a model trained on the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.build import plan_of
from plusone.data.dataset import Dataset
from plusone.data.groups import random_folds
from plusone.data.lazy import LazyArray, taken
from plusone.errors import InputError
from plusone.features.extraction import with_features
from plusone.inputs.task import Task, input_shape, make_task
from plusone.io.arrays import write_array
from plusone.io.keys import content_key, file_state
from plusone.probabilities.k import LabelsPerItem
from plusone.recipe import Recipe
from plusone.training.closed_fit import ClosedFormFit, fit_for
from plusone.training.reuse import Scored, kept_for
from plusone.version import __version__

SHOWN = 100  # items that the record of a closed form is measured on
FOLD_FILE = re.compile(r"[0-9a-f]{12}-of-\d+-\d+\.npy")


@dataclass(frozen=True)
class CrossFit:
    """Out-of-sample predictions.

    Args:
        rows: Rows of the data set that are in a fold: all but the test items, ascending.
        fold: Fold of each of them, int64 `[n]`, the same for items of a group; each item has its
            own for a closed form.
        log_odds: Log-odds of the scores of models that were not trained on them, float32 `[n, L]`:
            scores of 1 would tie.
        features: The inputs of the heads, `[n, D]` or `[n, T, D]`: features of the data set, or
            those of a fixed backbone; None where backbones were trained.
        estimate: k and how labels are picked, where a closed form has estimated them.
        reused: Whether a run had kept the predictions, so that nothing was fitted.
    """

    rows: npt.NDArray[np.int64]
    fold: npt.NDArray[np.int64]
    log_odds: npt.NDArray[np.float32]
    features: npt.NDArray[Any] | LazyArray | None
    estimate: LabelsPerItem | None = None
    reused: bool = False

    @property
    def probabilities(self) -> npt.NDArray[np.float64]:
        """The scores in [0, 1], `[n, L]`; in float64, where large log-odds do not tie."""
        return np.asarray(np.exp(-np.logaddexp(0.0, -self.log_odds.astype(np.float64))))


def cross_fit(
    dataset: Dataset,
    recipe: Recipe,
    folds: int = 5,
    *,
    on_epoch: Callable[[int], None] | None = None,
    on_fold: Callable[[int, bool], None] | None = None,
    on_extract: Callable[[int], None] | None = None,
    keep: Path | None = None,
    features_folder: Path | None = None,
    run: Path | None = None,
) -> CrossFit:
    """Trains one model per fold on all other items and predicts the fold.

    Items of a group are in one fold. A method with a closed form on fixed features is trained once
    instead: it predicts each item by a model without it, and its group, already.

    The labels of `dataset.table` are used as they are: observe it first if labels are to be hidden.
    Each model holds out a share of its own items for validation, according to the recipe.

    Args:
        dataset: The data; its truth, if any, is not used.
        recipe: The settings; the seed also draws the folds.
        folds: How many folds.
        on_epoch: Called with the number of the fold after every epoch.
        on_fold: Called after each fold with its number and whether it was read from `keep`.
        on_extract: Called with the number of images whose features were just extracted.
        keep: A folder for finished folds; those of the same data and settings are reused.
        features_folder: Where features of images are cached; `keep` by default.
        run: A run whose predictions of left-out items are taken if it has them for the same data
            and settings.
    """
    table = replace(dataset.table, truth=None)
    rows = np.flatnonzero(np.isin(np.arange(len(table)), table.rows_of("test"), invert=True))
    groups = None if table.groups is None else table.groups[rows]
    most = len(rows) if groups is None else len(np.unique(groups))
    if not 2 <= folds <= most:
        each = "" if groups is None else ", as many as there are groups"
        raise InputError(f"cross-fitting needs 2 to {most} folds{each}, not {folds}")
    settings = recipe.model_copy(update={"observe": "given", "select_on": "observed"})
    draw = np.random.default_rng(recipe.seed).permutation
    fold = random_folds(len(rows), folds, draw, groups)
    store = None if keep is None else _Store(keep, f"{_key(dataset, settings)}-of-{folds}")
    dataset = replace(dataset, table=table)
    if only_heads(dataset, settings):
        folder = features_folder or keep
        dataset = with_features(dataset, settings, tick=on_extract, folder=folder)
        settings = settings.model_copy(update={"crops": "one"})
    features = dataset.features
    if features is not None:
        features = None if features.ndim == 4 else taken(features, rows)
    if plan_of(settings, images=len(input_shape(dataset, settings)) == 3).closed_form:
        log_odds, estimate, reused = _left_out(dataset, settings, rows, store, run)
        return CrossFit(rows, np.arange(len(rows)), log_odds, features, estimate, reused)
    log_odds = np.zeros((len(rows), len(table.classes)), dtype=np.float32)
    for number in range(folds):
        predicted = None if store is None else store.read(str(number))
        stored = predicted is not None
        if predicted is None:
            split = np.full(len(table), "unused", dtype="<U6")
            split[rows] = np.where(fold == number, "test", "train")
            fold_data = replace(dataset, table=replace(table, split=split))
            predicted = _train_and_predict(fold_data, settings, number, on_epoch)
            if store is not None:
                store.write(str(number), predicted)
        log_odds[fold == number] = predicted
        if on_fold is not None:
            on_fold(number, stored)
    return CrossFit(rows, fold, log_odds, features)


def _left_out(
    dataset: Dataset,
    recipe: Recipe,
    rows: npt.NDArray[np.int64],
    store: _Store | None,
    run: Path | None,
) -> tuple[npt.NDArray[np.float32], LabelsPerItem | None, bool]:
    """Log-odds of a closed form for each of the rows, fitted without it, and its estimate of k.

    The last value says whether a run had kept them.
    """
    task, settings = _task_of_all(dataset, recipe, rows)
    with closing(task.workers):
        found = None if run is None else kept_for(run, task, settings)
        reused = found is not None
        if found is None:
            stored = None if store is None else store.read("0")
            if stored is not None:
                return stored, None, False
            training = fit_for(task, settings)
            for _ in training.epochs():
                pass
            assert isinstance(training, ClosedFormFit)
            left_out = training.all_left_out()
            assert left_out is not None
            log_odds = training.method.log_odds(left_out).numpy()
            found = Scored(log_odds, training.estimate)
    ids = np.concatenate([task.train.ids, task.val.ids])
    place = {name: number for number, name in enumerate(ids.tolist())}
    predicted = found.log_odds[[place[name] for name in dataset.table.ids[rows].tolist()]]
    if store is not None and not reused:
        store.write("0", predicted)
    return predicted, found.estimate, reused


def _task_of_all(
    dataset: Dataset, recipe: Recipe, rows: npt.NDArray[np.int64]
) -> tuple[Task, Recipe]:
    """A task whose training and validation items are the rows, and its settings.

    The items are divided as in a run where that leaves none out; all of them are learned from.
    """
    settings = recipe.model_copy(update={"use_validation": True})
    task = make_task(dataset, settings)
    if len(task.train) + len(task.val) == len(rows):
        return task, settings
    task.workers.close()
    split = np.full(len(dataset.table), "unused", dtype="<U6")
    split[rows] = "train"
    share = min(recipe.val_share, SHOWN / len(rows))
    settings = settings.model_copy(update={"val_share": share, "train_share": 1.0})
    return make_task(
        replace(dataset, table=replace(dataset.table, split=split)), settings
    ), settings


def _train_and_predict(
    dataset: Dataset, recipe: Recipe, number: int, on_epoch: Callable[[int], None] | None
) -> npt.NDArray[np.float32]:
    """Trains on the training items and predicts the test items."""
    task = make_task(dataset, recipe)
    assert task.test is not None
    training = fit_for(task, recipe)
    with closing(task.workers):
        for _ in training.epochs():
            if on_epoch is not None:
                on_epoch(number)
        predicted: npt.NDArray[np.float32] = training.log_odds(task.test).numpy()
    return predicted


def only_heads(dataset: Dataset, recipe: Recipe) -> bool:
    """Whether only a head is trained, on features of images from a fixed backbone."""
    images = len(input_shape(dataset, recipe)) == 3
    return images and plan_of(recipe, images=True).on_features


class _Store:
    """Finished folds in a folder; their names start with a key of data and settings."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        for other in folder.glob("*.npy"):
            if FOLD_FILE.fullmatch(other.name) and not other.name.startswith(f"{key}-"):
                other.unlink()  # of other data or settings

    def path(self, name: str) -> Path:
        return self.folder / f"{self.key}-{name}.npy"

    def read(self, name: str) -> npt.NDArray[np.float32] | None:
        try:
            values: npt.NDArray[np.float32] = np.load(self.path(name), allow_pickle=False)
        except (OSError, ValueError, EOFError):  # missing or damaged
            return None
        return values

    def write(self, name: str, values: npt.NDArray[np.float32]) -> None:
        write_array(self.path(name), values)


def _key(dataset: Dataset, recipe: Recipe) -> str:
    """A hash of the data and the settings."""
    table, x = dataset.table, dataset.features
    parts: list[Any] = [
        "log-odds",
        __version__,
        recipe.portable.to_toml(),
        file_state(Path(recipe.weights)),
    ]
    parts += [table.labels.digest(), table.classes, table.ids.tolist()]
    parts += [None if table.split is None else table.split.tolist()]
    parts += [] if table.named is None else [table.named.digest()]
    parts += [] if table.groups is None else [table.groups.tolist()]
    parts += [] if table.hints is None else [content_key(table.hints)]
    if x is not None:
        parts += [x.shape, x.dtype.str]
    elif table.root is not None:
        parts += [file_state(table.path(row)) for row in range(len(table))]
    return content_key(parts, *(() if x is None else (x,)), length=12)
