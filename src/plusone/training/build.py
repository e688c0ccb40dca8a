"""A model and its method, new or from a finished run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from plusone.data.formats import read as read_table
from plusone.errors import InputError
from plusone.methods import get_method
from plusone.methods.base import Method
from plusone.models.backbones import backbone_for, feature_dim
from plusone.models.classifier import Classifier
from plusone.recipe import Recipe
from plusone.seeds import seeded
from plusone.training import checkpoint
from plusone.training.loader import Inputs
from plusone.training.predict import predict
from plusone.training.run_folder import read_description, read_recipe, refuse_diverged
from plusone.types import TrainLabels


def build(
    recipe: Recipe,
    labels: TrainLabels,
    shape: tuple[int, ...],
    *,
    images: bool,
    backbone: nn.Module | None = None,
    weights: str | None = None,
) -> tuple[Classifier, Method]:
    """A model with fresh weights, and the method that will train it.

    Args:
        recipe: The settings.
        labels: What the method may know of the training items.
        shape: Shape of one input.
        images: Whether inputs are images.
        backbone: A module to use instead of the recipe's backbone; needs an attribute `dim`.
        weights: Where the backbone's weights come from, instead of what the recipe says.
    """
    info = get_method(recipe.method)
    for stage in recipe.stages:
        info.make_options(
            recipe.options | stage.options
        )  # refuses what does not exist before anything starts
    with seeded(recipe.seed, "initial weights"):
        method = info.build(labels, info.make_options(recipe.options))
        method.name = recipe.method
        if images and backbone is None:
            row = backbone_for(recipe.backbone)
            backbone = row.build(shape[0], shape[-1], weights or recipe.weights)
        dim = feature_dim(backbone) if backbone is not None else shape[-1]
        head = method.make_head(dim)
        return Classifier(backbone or nn.Identity(), head, recipe.precision), method


@dataclass(frozen=True)
class Predictor:
    """A trained model, ready to use.

    Args:
        recipe: The settings it was trained with.
        classes: Class names, in the order of the columns of its predictions.
        shape: Shape of one input.
        images: Whether inputs are images.
        model: The model.
        method: Its method.
    """

    recipe: Recipe
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    images: bool
    model: Classifier
    method: Method

    def probabilities(self, inputs: Inputs, tick: Callable[[int], None] | None = None) -> Tensor:
        """Probabilities `[N, L]` for all inputs."""
        kind = "images" if self.images else "features"
        logits = predict(self.model, self.model, inputs, kind=kind, tick=tick)
        return self.method.probabilities(logits)


def load_run(folder: Path) -> Predictor:
    """The model of a complete run."""
    recipe, about = read_recipe(folder), read_description(folder)
    weights = folder / "model.safetensors"
    if not weights.exists():
        refuse_diverged(folder)
        raise InputError(f"{folder}: the run is not complete; finish it with --resume")
    table = read_table(folder / "observed.npz").table
    seen, places = table.take(table.rows_of("train")).labels, len(about.shape) > 1
    labels = TrainLabels(seen, about.k, recipe.seed, places)
    # All weights are in the run: those that the backbone began with need not be found again.
    with Allotted(weights.stat().st_size, str(folder)):
        model, method = build(recipe, labels, about.shape, images=about.images, weights="random")
    tensors, _ = checkpoint.load(weights)
    try:
        model.load_state_dict(below(tensors, "model."))
        method.load_state_dict(below(tensors, "method."))
    except RuntimeError as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{weights}: does not fit the recipe beside it ({first})") from None
    return Predictor(recipe, about.classes, about.shape, about.images, model.eval(), method)


def below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The tensors whose names start with a prefix, without it."""
    return {
        key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
    }


FACTOR = 16  # a network's first weights, their copies and what is computed for them
SPARE = 2**28
MAKERS = ("empty", "zeros", "ones", "full", "rand", "randn", "new_")


class Allotted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside it tensors may be made up to so many numbers in all; more is an `InputError`.

    A recipe of a few bytes can ask for a network of any size. What a run really holds is the size
    of its weights file.

    Args:
        size: Bytes of the weights file.
        what: What to name in the message.
    """

    def __init__(self, size: int, what: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.left = FACTOR * size + SPARE
        self.what = what

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func.__name__.startswith(MAKERS):
            self._take(next((arg for arg in args if isinstance(arg, (list, tuple))), ()))
        return func(*args, **(kwargs or {}))

    def _take(self, shape: Sequence[int]) -> None:
        self.left -= 4 * math.prod(shape)
        if self.left < 0:
            raise InputError(
                f"{self.what}: describes a far larger model than its weights file holds"
            )
