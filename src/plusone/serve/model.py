"""The model of a service: a run or an export, computed by ONNX where there is a file of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from plusone.data.text_encoder import TextEncoder
from plusone.data.text_features import MADE_BY
from plusone.device import CPU, resolve
from plusone.errors import InputError, first_line
from plusone.inputs.loader import ArrayInputs
from plusone.prediction.load import load_run
from plusone.prediction.run_folder import read_description, read_recipe
from plusone.prediction.tags import Predictions, decoded
from plusone.probabilities.thresholds import Thresholds, read_thresholds
from plusone.recipe import Recipe

ONNX = "model.onnx"
MAX_PIXELS = 64_000_000  # of an image; decoding takes 10 bytes a pixel, and 18 of a WebP: 1.2 GB
ROWS = 16  # images that are computed at a time, so that others need not wait for a large batch


Compute = Callable[[Tensor], Tensor]  # calibrated probabilities `[B, L]` of inputs `[B, ...]`


@dataclass(frozen=True)
class ServedModel:
    """A model that answers requests of several threads."""

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    images: bool
    recipe: Recipe
    thresholds: Thresholds
    runtime: Literal["onnx", "torch"]
    compute: Compute
    encoder: TextEncoder | None = None  # of a model of texts
    _lock: Lock = field(default_factory=Lock)

    def decoded(self, file: Path | bytes) -> Tensor | str:
        """An image file as an input; or why it is none."""
        return decoded(file, self.shape[-1], self.recipe, MAX_PIXELS)

    def encoded(self, texts: Sequence[str]) -> Sequence[Tensor]:
        """The vectors of texts that are not empty, the inputs of a model of texts."""
        assert self.encoder is not None
        with self._lock:
            return [*torch.from_numpy(self.encoder(texts))]

    def predict(self, ids: Sequence[str], inputs: Sequence[Tensor]) -> Predictions:
        """Predictions of inputs of one kind."""
        parts = [torch.zeros(0, len(self.classes))]
        start = 0
        while start < len(inputs):
            rows = self._rows(inputs[start:])
            with self._lock:  # one computation at a time uses all cores
                parts.append(self.compute(torch.stack([*inputs[start : start + rows]])))
            start += rows
        return Predictions(tuple(ids), self.classes, torch.cat(parts))

    def _rows(self, inputs: Sequence[Tensor]) -> int:
        """How many of the first inputs are computed together: images a few, others all."""
        if self.images:
            return max(1, ROWS // (len(inputs[0]) if inputs[0].ndim == 4 else 1))
        same = (number for number, one in enumerate(inputs) if one.shape != inputs[0].shape)
        return next(same, len(inputs))  # tokens and regions may differ in number

    @property
    def what(self) -> str:
        """What one item is, in words."""
        if self.images:
            return "an image file"
        if self.encoder is not None:
            return "a text"
        if len(self.shape) == 1:
            return f"a list of {self.shape[0]} numbers"
        return f"a list of one or more lists of {self.shape[-1]} numbers"


def load_model(
    folder: Path, device: str = "auto", threshold: float | None = None, *, onnx: bool = True
) -> ServedModel:
    """Loads the model of a run or an export.

    ONNX computes if the folder has it, onnxruntime is installed, and the device is the CPU. Its
    graph is a program: the memory and time of an untrusted one are not bounded. The threshold is
    one for all classes; those of the folder by default.
    """
    recipe, description = read_recipe(folder), read_description(folder)
    if description.images and description.shape[0] != 3:
        raise InputError(
            f"{folder}: the model takes grey images, and image files are read in colour; use "
            "plusone predict"
        )
    if recipe.hint_features:
        raise InputError(
            f"{folder}: the model takes hints beside features; use plusone predict --hints"
        )
    classes, where = description.classes, resolve(device)
    compute: Compute
    runtime: Literal["onnx", "torch"]
    onnx = onnx and where == CPU and find_spec("onnxruntime") is not None
    if onnx and (folder / ONNX).is_file():
        compute, runtime = _OnnxCompute(folder / ONNX, classes), "onnx"
    else:
        predictor = load_run(folder, where)
        compute, runtime = lambda inputs: predictor.probabilities(ArrayInputs(inputs)), "torch"
    name = description.made_by.get(MADE_BY)
    if threshold is None:
        thresholds = read_thresholds(folder, classes)
    else:
        thresholds = Thresholds.same(threshold, len(classes))
    model = ServedModel(
        folder.resolve().name,
        classes,
        description.shape,
        description.images,
        recipe,
        thresholds,
        runtime,
        compute,
        None if name is None else TextEncoder(name),
    )
    _try(model, folder)
    return model


def _try(model: ServedModel, folder: Path) -> None:
    """Computes an item, which also makes the first request as fast as the others."""
    if model.images:
        crops = 5 if model.recipe.crops == "five" else 1
        shape = (crops, *model.shape) if crops > 1 else model.shape
        item = torch.zeros(shape, dtype=torch.uint8)
    else:
        item = torch.zeros(model.shape)
    try:
        scores = model.predict(["none"], [item]).probabilities
    except Exception as error:
        raise InputError(
            f"{folder}: the model cannot compute an item ({first_line(error)})"
        ) from error
    if tuple(scores.shape) != (1, len(model.classes)):
        raise InputError(
            f"{folder}: the model gives {tuple(scores.shape[1:])} probabilities for "
            f"{len(model.classes)} classes"
        )


class _OnnxCompute:
    def __init__(self, path: Path, classes: Sequence[str]) -> None:
        import onnxruntime

        from plusone.io.readers import parse_json

        options = onnxruntime.SessionOptions()
        # Threads that wait by spinning would take the cores from those that read requests.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self.session: Any = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
            about = self.session.get_modelmeta().custom_metadata_map
            same = parse_json(about["classes"]) == list(classes)
        except Exception as error:  # damaged files fail in many ways
            raise InputError(
                f"{path}: is not what plusone export writes ({first_line(error)})"
            ) from None
        if not same:
            raise InputError(f"{path}: has other classes than the folder; export the run again")
        self.name = self.session.get_inputs()[0].name

    def __call__(self, inputs: Tensor) -> Tensor:
        (scores,) = self.session.run(None, {self.name: inputs.numpy()})
        return torch.from_numpy(np.asarray(scores, dtype=np.float32))
