"""`fit`: train in one call, from Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from plusone.autorecipe import compose, facts_of
from plusone.data.dataset import Dataset, as_inputs
from plusone.data.source import load_source
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task, same_kind
from plusone.prediction.load import Predictor
from plusone.probabilities.calibration import Calibration
from plusone.probabilities.thresholds import Thresholds
from plusone.results import EpochRecord, RunResult
from plusone.training.guards import compiler_problem
from plusone.training.rates import begin_run
from plusone.training.summary import calibrate, summarise
from plusone.training.trainer import Training


@dataclass(frozen=True, repr=False)
class Fitted:
    """A finished training.

    Args:
        training: The model (`training.model`, with its best weights) and its method.
        records: One record per epoch.
        result: The same result that `plusone train` writes to `metrics.json`.
        calibration: From the scores of the model to probabilities.
        thresholds: Above which probability a label of each class is predicted.
    """

    training: Training
    records: tuple[EpochRecord, ...]
    result: RunResult
    calibration: Calibration
    thresholds: Thresholds

    def __repr__(self) -> str:
        task, result = self.training.task, self.result
        return (
            f"Fitted({result.method} on {task.name}: {len(task.train)} training items, "
            f"{len(task.classes)} classes)\n"
            f"  {result.headline()}\n"
            f"  predict(x) gives probabilities [N, {len(task.classes)}]; metrics, rules and "
            "training.model have the rest"
        )

    def _repr_html_(self) -> str:
        return self.result._repr_html_()

    @property
    def metrics(self) -> dict[str, Any]:
        """The result as plain values, as they stand in `metrics.json`."""
        return self.result.to_json()

    @property
    def rules(self) -> tuple[str, ...]:
        """Why settings that were not given are what they are, a sentence each."""
        return self.result.rules

    def predict(self, x: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Probabilities `[N, L]` for new inputs: features or tokens, or images `[N, C, H, W]`.

        They are calibrated, if there were enough held-out items (`calibration.sentence()` says).
        """
        return self._predict(self.predictor, x)

    def scores(self, x: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The raw scores of the method for new inputs, in [0, 1] and not calibrated, `[N, L]`."""
        return self._predict(self.predictor.raw, x)

    @property
    def predictor(self) -> Predictor:
        """The model with its calibration, as `load_run` gives it."""
        training, task = self.training, self.training.task
        return Predictor(
            training.recipe,
            task.classes,
            task.shape,
            task.images,
            training.model,
            training.method,
            self.calibration,
            hierarchy=task.hierarchy,
        )

    def _predict(self, predictor: Predictor, x: npt.ArrayLike) -> npt.NDArray[np.float32]:
        array, task = np.array(as_inputs(x)), self.training.task
        if not same_kind(array.shape[1:], task.shape):
            raise InputError(f"inputs have shape {array.shape}; each must be {task.shape}")
        if not len(array):
            return np.zeros((0, len(task.classes)), dtype=np.float32)
        inputs = ArrayInputs(torch.from_numpy(array), crops=self.training.recipe.crops)
        probabilities: npt.NDArray[np.float32] = predictor.probabilities(inputs).numpy()
        return probabilities


def fit(
    data: Dataset | str | Path,
    method: str | None = None,
    *,
    backbone: str | nn.Module | None = None,
    rules: bool = True,
    on_record: Callable[[EpochRecord], None] | None = None,
    **settings: Any,
) -> Fitted:
    """Trains a model; what is not given is chosen as `plusone train` chooses it.

    Args:
        data: A `Dataset`, the name of an embedded one ("digits"), or a path.
        method: Name in `plusone.METHODS`; None chooses by the data.
        backbone: Name of a backbone for images, or a module of your own: it needs an attribute
            `dim` (D) and turns bytes `[B, C, H, W]` into `[B, D, h, w]`, `[B, T, D]` or `[B, D]`.
        rules: Whether rules choose what is not given, by looking at the data; False leaves the
            recipe's defaults. They are silent for a module, whose weights they do not know.
        on_record: Called after every epoch.
        **settings: Anything a recipe can hold, such as `lr=1e-4`, `options={"alpha": 0.2}`.

    Example:
        >>> from plusone.data import Dataset
        >>> x = np.random.default_rng(0).normal(size=(40, 5)).astype("float32")
        >>> data = Dataset.from_arrays(x, (x[:, :3] > 0).astype(int), complete=True)
        >>> fitted = fit(data, epochs=2)
        >>> fitted.predict(x[:4]).shape
        (4, 3)
        >>> fitted.training.recipe.method
        'recovery'
    """
    if not isinstance(data, (Dataset, str, Path)):
        raise InputError(
            f"data must be a Dataset, a name or a path, not {type(data).__name__}; "
            "plusone.Dataset.from_arrays(x, labels) makes one of arrays"
        )
    dataset = data if isinstance(data, Dataset) else load_source(str(data))
    module = backbone if isinstance(backbone, nn.Module) else None
    flags = {"method": method, "backbone": None if module else backbone}
    composed = compose(
        partial(facts_of, dataset) if rules and module is None else None,
        settings,
        {name: value for name, value in flags.items() if value is not None},
        name=data if isinstance(data, str) else None,
    )
    recipe = composed.recipe
    if module is not None and recipe.weights != "auto":
        raise InputError("weights apply to backbones by name; load them into the module yourself")
    if recipe.compile and (problem := compiler_problem(recipe.device)) is not None:
        warnings.warn(problem, stacklevel=2)
    task = make_task(dataset, recipe)
    with closing(task.workers):
        composed, training, epochs = begin_run(task, composed, module)
        records = []
        for record in epochs:
            records.append(record)
            for remark in record.remarks:
                warnings.warn(remark, stacklevel=2)
            if on_record is not None:
                on_record(record)
        seconds = sum(record.seconds for record in records)
        calibration, thresholds = calibrate(training)
        result = summarise(training, None, seconds, composed.rules, (calibration, thresholds))
        return Fitted(training, tuple(records), result, calibration, thresholds)
