"""Cross-fitting: out-of-sample predictions for every item.

A model is over-confident on its training items, above all about their observed labels. So the items
are divided into folds, and each fold is predicted by a model trained on the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.build import plan_of
from plusone.data.dataset import Dataset
from plusone.data.groups import random_folds
from plusone.data.lazy import LazyArray, taken
from plusone.errors import InputError
from plusone.features.extraction import with_features
from plusone.inputs.task import Task, input_shape, make_task
from plusone.io.arrays import Blocks, mapped_file, write_blocks
from plusone.io.keys import content_key, file_state
from plusone.parallel.passes import divided_pass
from plusone.parallel.processes import all_gather_values, barrier, is_main_process
from plusone.probabilities.k import LabelsPerItem
from plusone.probabilities.scores import Scores, blocks
from plusone.recipe import Recipe
from plusone.training.closed_fit import ClosedFormFit, fit_for
from plusone.training.reuse import MOST_LABELS, kept_for
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
        scores: Scores of models that were not trained on them, `[n, L]`, from log-odds in float32:
            scores of 1 would tie.
        features: The inputs of the heads, `[n, D]` or `[n, T, D]`: features of the data set, or
            those of a fixed backbone; None where backbones were trained.
        estimate: k and how labels are picked, where a closed form has estimated them.
        reused: Whether a run had kept the predictions, so that nothing was fitted.
    """

    rows: npt.NDArray[np.int64]
    fold: npt.NDArray[np.int64]
    scores: Scores
    features: npt.NDArray[Any] | LazyArray | None
    estimate: LabelsPerItem | None = None
    reused: bool = False


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
    predicted = []
    for number in range(folds):
        own = None if store is None else store.read(str(number))
        stored = own is not None
        if own is None:
            split = np.full(len(table), "unused", dtype="<U6")
            split[rows] = np.where(fold == number, "test", "train")
            fold_data = replace(dataset, table=replace(table, split=split))
            own = _train_and_predict(fold_data, settings, number, on_epoch, store)
        predicted.append(own)
        if on_fold is not None:
            on_fold(number, stored)
    place = np.argsort(np.argsort(fold, kind="stable"))  # of each item in the rows of all folds
    scores = _scores(LazyArray(predicted, place).__getitem__, len(rows), len(table.classes))
    return CrossFit(rows, fold, scores, features)


def _scores(
    log_odds: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float32]], n: int, n_classes: int
) -> Scores:
    """Scores from log-odds; in float64, where large log-odds do not tie."""

    def at(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.asarray(np.exp(-np.logaddexp(0.0, -log_odds(rows).astype(np.float64))))

    return Scores(at, (n, n_classes), divided_pass())


def _left_out(
    dataset: Dataset,
    recipe: Recipe,
    rows: npt.NDArray[np.int64],
    store: _Store | None,
    run: Path | None,
) -> tuple[Scores, LabelsPerItem | None, bool]:
    """Scores of a closed form for each of the rows, fitted without it, and its estimate of k.

    Up to `MOST_LABELS` they are kept; beyond, they are computed when they are asked for. The last
    value says whether a run had kept them.
    """
    task, settings = _task_of_all(dataset, recipe, rows)
    ids = np.concatenate([task.train.ids, task.val.ids])
    place = {name: number for number, name in enumerate(ids.tolist())}
    items = np.array([place[name] for name in dataset.table.ids[rows].tolist()])
    shape = len(rows), len(dataset.table.classes)
    with closing(task.workers):
        found = None if run is None else kept_for(run, task, settings)
        if found is not None:
            return _scores(found.log_odds[items].__getitem__, *shape), found.estimate, True
        stored = None if store is None else store.read("0")
        if stored is not None:
            return _scores(stored.__getitem__, *shape), None, False
        training = fit_for(task, settings)
        for _ in training.epochs():
            pass
        assert isinstance(training, ClosedFormFit)
        estimate, method = training.estimate, training.method
        if shape[0] * shape[1] > MOST_LABELS:

            def computed(some: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
                logits = training.predicted(torch.from_numpy(items[some]), alone=True)
                return np.asarray(method.log_odds(logits))

            return _scores(computed, *shape), estimate, False
        left_out = training.all_left_out()
        assert left_out is not None
        log_odds = method.log_odds(left_out).numpy()[items]
    if store is not None:
        store.write("0", Blocks.of(log_odds))
    return _scores(log_odds.__getitem__, *shape), estimate, False


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
    dataset: Dataset,
    recipe: Recipe,
    number: int,
    on_epoch: Callable[[int], None] | None,
    store: _Store | None,
) -> npt.NDArray[np.float32]:
    """Trains on the training items and predicts the test items; kept in the store, if any."""
    task = make_task(dataset, recipe)
    test = task.test
    assert test is not None
    training = fit_for(task, recipe)
    with closing(task.workers):
        for _ in training.epochs():
            if on_epoch is not None:
                on_epoch(number)
        if store is None:
            return training.log_odds(test).numpy()
        parts = (
            training.log_odds(test, torch.from_numpy(some)).numpy()
            for some in blocks(np.arange(len(test)), len(task.classes))
        )
        return store.write(str(number), Blocks((len(test), len(task.classes)), np.float32, parts))


def only_heads(dataset: Dataset, recipe: Recipe) -> bool:
    """Whether only a head is trained, on features of images from a fixed backbone."""
    images = len(input_shape(dataset, recipe)) == 3
    return images and plan_of(recipe, images=True).on_features


class _Store:
    """Finished folds in a folder; their names start with a key of data and settings."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        for other in folder.glob("*.npy") if is_main_process() else ():
            if FOLD_FILE.fullmatch(other.name) and not other.name.startswith(f"{key}-"):
                other.unlink()  # of other data or settings

    def path(self, name: str) -> Path:
        return self.folder / f"{self.key}-{name}.npy"

    def read(self, name: str) -> npt.NDArray[np.float32] | None:
        """What was written, mapped from the file; None if a process does not find it."""
        found: npt.NDArray[np.float32] | None = None
        with suppress(OSError, ValueError):  # missing or damaged
            found = mapped_file(self.path(name))
        return found if all(all_gather_values(found is not None)) else None

    def write(self, name: str, values: Blocks) -> npt.NDArray[np.float32]:
        """Keeps the values `[n, L]`, which come in blocks; gives them mapped from the file."""
        if is_main_process():
            write_blocks(self.path(name), values)
        else:
            for _ in values.blocks:  # predicted together
                pass
        barrier()
        found = self.read(name)
        if found is None:
            raise InputError(
                f"{self.folder}: all processes need this folder; choose a shared --out"
            )
        return found


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
