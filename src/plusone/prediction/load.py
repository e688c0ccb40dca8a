"""Loading the model of a finished run, ready to predict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from plusone.build import below, blank_labels, branched, build
from plusone.closed_form.kernel import KernelMap, StandardMap, kind_of
from plusone.data.classes_file import read_hierarchy
from plusone.data.hierarchy import Hierarchy
from plusone.data.images import Crops
from plusone.device import allowing_tf32, autocasts, device_of, resolve
from plusone.errors import InputError, first_line
from plusone.inputs.forward import predict
from plusone.inputs.loader import ArrayInputs, Inputs
from plusone.methods._base import Method
from plusone.models.backbones import feature_dim
from plusone.models.classifier import Classifier
from plusone.prediction import checkpoint
from plusone.prediction.run_folder import (
    is_unfinished,
    read_description,
    read_observed,
    read_recipe,
    refuse_diverged,
)
from plusone.probabilities.calibration import Calibration, read_calibration
from plusone.probabilities.consistent import consistent
from plusone.recipe import Recipe
from plusone.types import TrainLabels

ALLOCATED_PER_BYTE = 16  # of a weights file: initial weights, their copies and temporaries
ALLOCATED_AT_LEAST = 2**28
MEMORY = "memory.safetensors"  # tables of a method with a row for each item, held-out scores
LANDMARKS = ".similarity.landmarks"  # in a weights file
FACTORIES = ("empty", "zeros", "ones", "full", "rand", "randn", "new_")  # functions of torch


@dataclass(frozen=True)
class Predictor:
    """A trained model, ready to use.

    Args:
        classes: Class names, in the order of the columns of its predictions.
        calibration: From its scores to probabilities; the identity if it has none.
        crops: Which crops of an image it is shown; those of its training if not given.
        batch_size: Inputs that are computed at once; by the device if not given.
        made_by: What made the features that it was trained on, as far as their file said.
        hierarchy: Which class lies below which; probabilities agree with it.
    """

    recipe: Recipe
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    images: bool
    model: Classifier
    method: Method
    calibration: Calibration
    crops: Crops | None = None
    batch_size: int | None = None
    made_by: Mapping[str, Any] = field(default_factory=dict)
    hierarchy: Hierarchy | None = None

    @property
    def shown(self) -> Recipe:
        """The settings that inputs are made by: those of the training, with the crops shown."""
        return self.recipe.model_copy(update={"crops": self.crops or self.recipe.crops})

    def with_crops(self, crops: Crops) -> Predictor:
        """The same model shown other crops of an image than in its training.

        A model that was trained on whole images gives the mean odds of the crops.
        """
        if not self.images:
            raise InputError("crops are parts of images, and this model takes features")
        return replace(self, crops=crops)

    @property
    def raw(self) -> Predictor:
        """The same model without its calibration: its probabilities are the raw scores."""
        none = Calibration.none(len(self.classes), "as asked for")
        return replace(self, calibration=none, hierarchy=None)

    def log_odds(self, inputs: Inputs, tick: Callable[[int], None] | None = None) -> Tensor:
        """Log-odds of the probabilities `[N, L]`, which rank labels where those round to 1."""
        kind = "images" if self.images else "features"
        forward = self._mean_odds if self.means_odds else self.model
        with allowing_tf32(device_of(self.model), self.recipe.tf32):
            logits = predict(
                self.model, forward, inputs, kind=kind, tick=tick, rows=self.batch_size
            )
            return self.from_logits(logits)

    @property
    def means_odds(self) -> bool:
        """Whether it was trained on whole images and is shown several crops of each."""
        return self.recipe.crops == "one" and self.shown.crops != "one"

    def features(self, images: Inputs, *, apart: bool = False) -> Tensor:
        """The pooled features of images, as the head takes them, `[N, D]`.

        Those of several crops are averaged, or kept apart, `[N, V, D]`.
        """
        forward = self.model.crop_features if apart else self.model.features
        with allowing_tf32(device_of(self.model), self.recipe.tf32):
            return predict(self.model, forward, images, kind="images", rows=self.batch_size)

    def of_features(self, x: Tensor) -> Tensor:
        """Probabilities `[N, L]` from features `[N, D]` of images."""
        return torch.sigmoid(self._log_odds_of(x))

    def _log_odds_of(self, x: Tensor) -> Tensor:
        with allowing_tf32(device_of(self.model), self.recipe.tf32):
            logits = predict(self.model, self.model.head, ArrayInputs(x), kind="features")
            return self.from_logits(logits)

    def of_crops(self, images: Inputs) -> tuple[Tensor, Tensor]:
        """Probabilities `[N, L]`, and log-odds of each crop alone `[N, V, L]`."""
        if not self.means_odds:
            return self.of_crop_features(self.features(images, apart=True))
        with allowing_tf32(device_of(self.model), self.recipe.tf32):
            logits = predict(
                self.model, self._crop_logits, images, kind="images", rows=self.batch_size
            )
            return torch.sigmoid(self.from_logits(_mean_odds(logits))), self.from_logits(logits)

    def of_crop_features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The same from features of each crop, `[N, V, D]`."""
        apart = self._log_odds_of(x.flatten(0, 1)).reshape(*x.shape[:2], -1)
        return self.of_features(x.mean(dim=1)), apart

    def probabilities(self, inputs: Inputs, tick: Callable[[int], None] | None = None) -> Tensor:
        """Probabilities `[N, L]` for all inputs."""
        return torch.sigmoid(self.log_odds(inputs, tick))

    def from_logits(self, logits: Tensor) -> Tensor:
        """Log-odds of the probabilities, from logits of the model `[..., L]`."""
        return consistent(self.calibration(self.method.log_odds(logits)), self.hierarchy)

    def _crop_logits(self, crops: Tensor) -> Tensor:
        """Logits `[B, V, L]` of each crop `[B, V, C, H, W]`."""
        logits: Tensor = self.model(crops.flatten(0, 1)).logits
        return logits.reshape(*crops.shape[:2], -1)

    def _mean_odds(self, crops: Tensor) -> Tensor:
        """Logits `[B, L]` of the mean odds over crops `[B, V, C, H, W]`."""
        return _mean_odds(self._crop_logits(crops))


def _mean_odds(logits: Tensor) -> Tensor:
    """Logits `[B, L]` of the mean odds over logits `[B, V, L]`."""
    return logits.logsumexp(dim=1) - math.log(logits.shape[1])


def load_run(
    folder: Path, device: str | torch.device = "auto", *, memory: bool = False
) -> Predictor:
    """Loads the model of a run.

    Args:
        folder: The run.
        device: What it computes on, whatever it was trained on; see `plusone.device.resolve`.
        memory: Whether the method gets the training labels and what it remembers of the training
            items, too. Prediction needs neither.
    """
    device = resolve(device)
    recipe, description = read_recipe(folder), read_description(folder)
    weights = folder / "model.safetensors"
    if not weights.exists():
        refuse_diverged(folder)
    if not weights.exists() and not (folder / "records.jsonl").exists():
        raise InputError(f"{folder}: has no model.safetensors; train or export it again")
    if not weights.exists() or is_unfinished(folder):
        raise InputError(f"{folder}: the run is not complete; finish it with --resume")
    shape, size = description.shape, weights.stat().st_size
    labels = blank_labels(len(description.classes), description.k, recipe.seed, shape)
    tensors, _ = checkpoint.load(weights)
    if memory:
        table = read_observed(folder)
        if (tables := folder / MEMORY).exists():
            tensors |= checkpoint.load(tables, "method.")[0]
            size += tables.stat().st_size
        limit = AllocationLimit(size, str(folder))
        limit.take((len(table), len(table.classes)))  # no operation of torch may say so later
        labels = replace(labels, observed=table.take(table.rows_of("train")).labels)
    model, method = with_weights(
        recipe, labels, shape, tensors, images=description.images, size=size, source=str(folder),
        memory=memory,
    )  # fmt: skip
    if not autocasts(device, model.precision):
        model.precision = "float32"  # trained on another device
    model.eval().place(device)
    return Predictor(
        recipe,
        description.classes,
        shape,
        description.images,
        model,
        method,
        read_calibration(folder, description.classes),
        made_by=description.made_by,
        hierarchy=read_hierarchy(folder, description.classes),
    )


def with_weights(
    recipe: Recipe,
    labels: TrainLabels,
    shape: tuple[int, ...],
    tensors: dict[str, Tensor],
    *,
    images: bool,
    size: int,
    source: str,
    memory: bool = False,
) -> tuple[Classifier, Method]:
    """A model and its method with saved weights.

    Args:
        recipe: The settings.
        labels: What the method is built with.
        shape: Shape of one input.
        tensors: Those of the model below "model.", those of the method below "method.".
        images: Whether inputs are images.
        size: Bytes of the weights where they come from; a recipe cannot ask for far more.
        source: Where that is, for errors.
        memory: Whether the tensors have what the method remembers of the training items.
    """
    landmarks = [len(value) for key, value in tensors.items() if key.endswith(LANDMARKS)]
    # All weights are in the run: pretrained weights need not be loaded.
    with AllocationLimit(size, source):
        model, method = build(
            recipe,
            labels,
            shape,
            images=images,
            weights="random",
            landmarks=next(iter(landmarks), None),
        )
        dim = shape[-1] if not images else feature_dim(model.backbone)
        inner = KernelMap(dim, landmarks[0], kind=kind_of(tensors)) if landmarks else None
        between = StandardMap(dim, inner) if recipe.standardize else inner
        if not branched(model, tensors) and between is not None:
            model.head = between.folded(model.head)
    try:
        model.load_state_dict(below(tensors, "model."))
        state = below(tensors, "method.")
        if not memory:  # tables of one item stay as they are; older runs have those of all items
            blank = method.state_dict()
            state |= {name: blank[name] for name in method.per_item if name in blank}
        method.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(
            f"{source}: its weights do not fit its recipe ({first_line(error)})"
        ) from None
    return model, method


class AllocationLimit(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Limits the tensors that are created inside it; more is an `InputError`.

    A recipe of a few bytes can ask for a network of any size; the weights file of the run says how
    large its network really is.
    """

    def __init__(self, size: int, what: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.left = ALLOCATED_PER_BYTE * size + ALLOCATED_AT_LEAST
        self.what = what

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func.__name__.startswith(FACTORIES):
            self.take(next((arg for arg in args if isinstance(arg, (list, tuple))), ()))
        return func(*args, **(kwargs or {}))

    def take(self, shape: Sequence[int]) -> None:
        """Counts a tensor of a shape."""
        self.left -= 4 * math.prod(shape)
        if self.left < 0:
            raise InputError(
                f"{self.what}: describes a far larger model than its weights file holds"
            )
