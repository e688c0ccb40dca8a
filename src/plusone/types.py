"""What data, model, method and training loop exchange: frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from plusone.data.matrix import LabelMatrix

__all__ = ["Batch", "Clock", "Outputs", "Stage", "TrainLabels"]


@dataclass(frozen=True)
class TrainLabels:
    """What a method knows before training.

    Args:
        observed: Seen labels of the training items in three states, `[N, L]`.
        expected_positives: Positives an item is expected to have (the papers' k), if given.
        seed: Seed for whatever the method initialises or draws.
        places: Whether inputs have places (images, feature maps, tokens) or are single vectors.
        hints: Scores of the training items from elsewhere in [0, 1], float32 `[N, L]`, NaN where
            there is none; None if there are none at all.
        class_priors: Share of items that have each class, `L` numbers, if they are known.
    """

    observed: LabelMatrix
    expected_positives: float | None = None
    seed: int = 0
    places: bool = True
    hints: Tensor | None = None
    class_priors: tuple[float, ...] | None = None

    @property
    def n_items(self) -> int:
        """`N`."""
        return len(self.observed)

    @property
    def n_classes(self) -> int:
        """`L`."""
        return self.observed.n_classes


@dataclass(frozen=True)
class Batch:
    """One step's data.

    Args:
        views: One input tensor per view the method asked for, `[B, ...]` each.
        observed: Seen labels, float `[B, L]` in {1, 0, -1}; what a loss gets may have -w, a seen
            negative of weight w (`plusone.losses.weighting`).
        index: Row of each item among the training items, int64 `[B]`.
        teacher: Outputs of the model's moving average for each view, without gradients;
            empty unless the method has a `teacher`.
        boxes: Which part of its image each view shows, float `[B, V, 4]`: the image's left, top,
            right and bottom at the edges of the view, from 0 to 1. Left is greater than right where
            the view is mirrored. None if the inputs are no images. The rotations and shears of a
            strong view are not in it.
        again: Outputs for the inputs of `Method.look_again`, without gradients.
    """

    views: tuple[Tensor, ...]
    observed: Tensor
    index: Tensor
    teacher: tuple[Outputs, ...] = ()
    boxes: Tensor | None = None
    again: Outputs | None = None


@dataclass(frozen=True)
class Outputs:
    """The outputs of a model for one view.

    Args:
        logits: `[B, L]`.
        features: The input of the head, `[B, D]` or `[B, D, ...]`.
        embeddings: One vector per class, `[B, L, d]`, from heads that have them.
        maps: Class maps `[B, L, h, w]`, from heads that have them.
    """

    logits: Tensor
    features: Tensor
    embeddings: Tensor | None = None
    maps: Tensor | None = None


@dataclass(frozen=True)
class Clock:
    """Where training is. All counts start at 0.

    Args:
        stage: Number of the stage.
        epoch: Epoch within the stage.
        epochs: Epochs of the stage.
        step: Step within the epoch.
        steps: Steps of an epoch.
    """

    stage: int
    epoch: int
    epochs: int
    step: int
    steps: int

    @property
    def progress(self) -> float:
        """Share of the stage's epochs that are done, in [0, 1)."""
        return self.epoch / self.epochs


@dataclass(frozen=True)
class Stage:
    """One stage of training.

    Args:
        inputs: "features" trains the head on fixed features, "images" the whole model.
        epochs: How many epochs.
        lr: Learning rate of the backbone (and of the head, times `head_lr_mult`).
        freeze_backbone: Keep the backbone's weights in an "images" stage.
        start_from: Weights to start from: the best or the last of the previous stage.
        options: Method options that change for this stage.
    """

    inputs: Literal["features", "images"]
    epochs: int
    lr: float
    freeze_backbone: bool = False
    start_from: Literal["best", "last"] = "best"
    options: Mapping[str, Any] = field(default_factory=dict)
