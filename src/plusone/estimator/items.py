"""Arrays made ready for the engine, and what is kept of a training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.data.dataset import Dataset
from plusone.data.lazy import LazyArray
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.engine.build import Predictor, build
from plusone.engine.inputs import ArrayInputs, Inputs, SomeInputs
from plusone.engine.order import visiting_order
from plusone.engine.task import Part, Task, make_task
from plusone.engine.training import Training
from plusone.errors import InputError
from plusone.estimator.labels import Labels
from plusone.recipe import Recipe
from plusone.seeds import generator
from plusone.types import TrainLabels

Weights = npt.NDArray[np.float64]


def check_labels(x: npt.NDArray[Any], labels: Labels) -> None:
    """Refuses labels that nothing can be learned from."""
    check_lengths(len(x), len(labels.matrix))
    if len(labels.classes) < 2:
        raise InputError(
            f"y has {len(labels.classes)} class; a multi-label classifier needs two classes or more"
        )
    if not (labels.matrix.values == 1).any():
        raise InputError("y has no positive label (no 1 in the matrix); nothing can be learned")


def check_lengths(inputs: int, labels: int) -> None:
    """Refuses labels of other items than the inputs."""
    if inputs != labels:
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: X has {inputs} rows, y "
            f"has {labels}"
        )


def stacked(one: LabelMatrix, other: LabelMatrix) -> LabelMatrix:
    """Labels over the same classes, one below the other."""
    return LabelMatrix.concatenate([one, other.with_default(one.default)])


def make_items(
    x: npt.NDArray[Any] | LazyArray,
    matrix: LabelMatrix,
    held: npt.NDArray[np.bool_],
    labels: Labels,
    weights: Weights | None,
    recipe: Recipe,
) -> Task:
    """The items made ready for the engine.

    Args:
        x: Features `[N, D]`.
        matrix: Their seen labels.
        held: Which of them are validation items, bool `[N]`.
        labels: Where the classes come from.
        weights: Weights of the first items; further ones are the user's own validation items.
        recipe: The settings.
    """
    split = np.where(held, "val", "train")
    ids = np.arange(len(x)).astype(np.str_)
    table = LabelTable(ids, tuple(str(name) for name in labels.classes), matrix, split=split)
    task = make_task(Dataset(table, x, "arrays"), recipe)
    if weights is not None:
        own = held[: len(weights)]
        train, val = replace(task.train, weights=weights[~own]), task.val
        if own.any():
            val = _repeated(val, weights[val.ids.astype(np.int64)], recipe.seed)
        task = replace(task, train=train, val=val)
    return replace(task, val=_with_truth(task.val))


def _repeated(part: Part, weights: Weights, seed: int) -> Part:
    """Held-out items, each as often as its weight says: metrics then count it so."""
    draw = generator(seed, "held-out items")
    rows = np.sort(visiting_order(len(part), weights, draw).numpy())
    inputs: Inputs = SomeInputs(part.inputs, torch.from_numpy(rows))
    if isinstance(part.inputs, ArrayInputs):
        inputs = ArrayInputs(part.inputs.at(torch.from_numpy(rows)))
    return Part(part.ids[rows], inputs, part.observed.take(rows), part.truth, of=part.of)


def _with_truth(part: Part) -> Part:
    """The same items; where every label was seen, that is the truth."""
    if part.observed.per_class(0).any():
        return part
    return replace(part, truth=part.observed.with_default(-1))


def light_predictor(training: Training) -> Predictor:
    """The trained model without the data and the memory of its method."""
    task, recipe = training.task, training.recipe
    first = TrainLabels(task.train.observed.take([0]), training.k, recipe.seed, places=False)
    model, method = build(recipe, first, task.shape, images=False)
    model.load_state_dict(training.model.state_dict())
    return Predictor(recipe, task.classes, task.shape, False, model.eval(), method)
