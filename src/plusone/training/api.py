"""`fit`: train in one call, from Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from plusone.data.dataset import Dataset, as_inputs
from plusone.data.source import DATA_DEFAULTS, load_source
from plusone.errors import InputError
from plusone.methods import get_method
from plusone.recipe import make_recipe
from plusone.results import EpochRecord, RunResult
from plusone.training.loader import ArrayInputs
from plusone.training.summary import summarise
from plusone.training.task import make_task, same_kind
from plusone.training.trainer import Training


@dataclass(frozen=True)
class Fitted:
    """A finished training.

    Args:
        training: The model (`training.model`, with its best weights) and its method.
        records: One record per epoch.
        result: The same result that `plusone train` writes to `metrics.json`.
    """

    training: Training
    records: tuple[EpochRecord, ...]
    result: RunResult

    @property
    def metrics(self) -> dict[str, Any]:
        """The result as plain values, as they stand in `metrics.json`."""
        return self.result.to_json()

    def predict(self, x: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Probabilities `[N, L]` for new inputs: features or tokens, or images `[N, C, H, W]`."""
        array, task = np.array(as_inputs(x)), self.training.task
        if not same_kind(array.shape[1:], task.shape):
            raise InputError(f"inputs have shape {array.shape}; each must be {task.shape}")
        if not len(array):
            return np.zeros((0, len(task.classes)), dtype=np.float32)
        inputs = ArrayInputs(torch.from_numpy(array))
        probabilities: npt.NDArray[np.float32] = self.training.predict_inputs(inputs).numpy()
        return probabilities


def fit(
    data: Dataset | str | Path,
    method: str = "gr",
    *,
    backbone: str | nn.Module | None = None,
    on_record: Callable[[EpochRecord], None] | None = None,
    **settings: Any,
) -> Fitted:
    """Trains a model.

    Args:
        data: A `Dataset`, the name of an embedded one ("digits"), or a path.
        method: Name in `plusone.METHODS`.
        backbone: Name of a backbone for images, or a module of your own: it needs an attribute
            `dim` (D) and turns bytes `[B, C, H, W]` into `[B, D, h, w]`, `[B, T, D]` or `[B, D]`.
        on_record: Called after every epoch.
        **settings: Anything a recipe can hold, such as `lr=1e-4`, `options={"alpha": 0.2}`.

    Example:
        >>> from plusone.data import Dataset
        >>> x = np.random.default_rng(0).normal(size=(40, 5)).astype("float32")
        >>> data = Dataset.from_arrays(x, (x[:, :3] > 0).astype(int), complete=True)
        >>> fit(data, "an", epochs=2).predict(x[:4]).shape
        (4, 3)
    """
    dataset = data if isinstance(data, Dataset) else load_source(str(data))
    defaults = DATA_DEFAULTS.get(data, {}) if isinstance(data, str) else {}
    said = settings | ({"backbone": backbone} if isinstance(backbone, str) else {})
    recipe = make_recipe(defaults, get_method(method).defaults, said, {"method": method})
    module = backbone if isinstance(backbone, nn.Module) else None
    if module is not None and recipe.weights != "auto":
        raise InputError("weights are for backbones by name; load them into the module yourself")
    training = Training(make_task(dataset, recipe), recipe, backbone=module)
    records = []
    for record in training.epochs():
        records.append(record)
        if on_record is not None:
            on_record(record)
    seconds = sum(record.seconds for record in records)
    return Fitted(training, tuple(records), summarise(training, None, seconds))
