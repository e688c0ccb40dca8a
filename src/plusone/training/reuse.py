"""Predictions of left-out items that a run in closed form keeps, so that nobody fits them again.

`plusone suggest` scores every item by a model that was not fitted on it. A closed form has these
scores already: they are in `memory.safetensors`, with a key of all that they depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.device import CPU
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs, Inputs, MappedInputs
from plusone.inputs.task import Part, Task
from plusone.io.keys import content_key
from plusone.models.heads import Head
from plusone.parallel.processes import world
from plusone.prediction import checkpoint
from plusone.prediction.load import MEMORY
from plusone.probabilities.k import LabelsPerItem
from plusone.recipe import Recipe
from plusone.training.closed_fit import ClosedFormFit
from plusone.training.selection import State
from plusone.training.trainer import Training
from plusone.version import __version__

PREFIX = "cross_fit."
LOG_ODDS = "log_odds"
KEY = "cross_fit"
MOST_LABELS = 1 << 26  # items x classes: 256 MB in float32


@dataclass(frozen=True)
class Scored:
    """Log-odds of items, each predicted by a closed form that was fitted without it.

    Args:
        log_odds: Float32 `[n, L]`; training items first, then validation items.
        estimate: k and how labels are picked, where the method estimates them.
    """

    log_odds: npt.NDArray[np.float32]
    estimate: LabelsPerItem | None


def kept_by_run(training: Training) -> tuple[State, dict[str, str]]:
    """Tensors and the key that a run keeps; nothing if it is no closed form, or too large."""
    if not isinstance(training, ClosedFormFit) or world()[1] > 1:
        return {}, {}
    parts = training.learned.parts
    counted = training.expected.source in ("truth", "validation")  # others would estimate it
    labels = sum(len(part) for part in parts) * training.task.train.observed.n_classes
    if len(parts) < 2 or counted or labels > MOST_LABELS:
        return {}, {}
    left_out = training.all_left_out()
    if left_out is None:
        return {}, {}
    tensors = {LOG_ODDS: training.method.log_odds(left_out).float()}
    tensors |= {} if training.estimate is None else training.estimate.to_tensors()
    vectors = [_vectors(training.inputs.forward(part, training.model)[0]) for part in parts]
    named = {PREFIX + name: tensor for name, tensor in tensors.items()}
    return named, {KEY: _key(training.recipe, parts, vectors)}


def kept_for(run: Path, task: Task, recipe: Recipe) -> Scored | None:
    """What a run keeps for the items of a task; None if its data or settings are others.

    Args:
        run: The run folder.
        task: The items, with features as inputs; training and validation items count.
        recipe: The settings.
    """
    try:
        tensors, plain = checkpoint.load(run / MEMORY, PREFIX)
    except InputError:  # missing or damaged
        return None
    if KEY not in plain or PREFIX + LOG_ODDS not in tensors:
        return None
    parts = (task.train, task.val)
    vectors = [_vectors(part.inputs) for part in parts]
    if plain[KEY] != _key(recipe, parts, vectors):
        return None
    own = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}
    return Scored(own[LOG_ODDS].numpy(), LabelsPerItem.from_tensors(own))


def _vectors(inputs: Inputs) -> Tensor:
    """Features of items, float32 `[n, D]`."""
    assert isinstance(inputs, ArrayInputs | MappedInputs)
    return Head().pool(inputs.at(torch.arange(len(inputs))).to(CPU).float())


def _key(recipe: Recipe, parts: Sequence[Part], vectors: Sequence[Tensor]) -> str:
    """A hash of version, settings, items, labels and features.

    How labels were hidden, what chooses an epoch and which crops gave the features are left out:
    seen labels and features are hashed themselves, and a closed form has no epochs.
    """
    same = {"observe": "given", "select_on": "observed", "crops": "one"}
    settings = recipe.portable.model_copy(update=same).to_toml()
    contents: list[object] = [("left out", __version__, settings)]
    for part, x in zip(parts, vectors, strict=True):
        groups = None if part.groups is None else part.groups.tolist()
        contents += [(part.ids.tolist(), groups, part.observed.digest(), tuple(x.shape)), x]
        contents += [] if part.named is None else [part.named.digest()]
        contents += [] if part.hints is None else [part.hints]
        contents += [] if part.weights is None else [part.weights]
    return content_key(*contents)
