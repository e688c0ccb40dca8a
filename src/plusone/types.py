"""What data, model, method and training loop exchange: frozen records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field
from torch import Tensor

from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix

Picks = Literal["auto", "uniform", "salience"]  # how annotators pick the label they name

__all__ = ["Batch", "Clock", "Outputs", "Stage", "TrainLabels", "given"]

MOST_EPOCHS = 1_000_000


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
        picks: Whether how readily each class is named is learned, or picks are taken as uniform.
        classes: Names of the classes; empty where nothing is trained.
        hierarchy: Which class lies below which.
    """

    observed: LabelMatrix
    expected_positives: float | None = None
    seed: int = 0
    places: bool = True
    hints: Tensor | None = None
    class_priors: tuple[float, ...] | None = None
    picks: Picks = "auto"
    classes: tuple[str, ...] = ()
    hierarchy: Hierarchy | None = None

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


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Options without None: it means "not given" to every method, and TOML cannot hold it."""
    return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a run: what `[[stages]]` of a recipe says, or what its mode stands for."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    inputs: Annotated[
        Literal["features", "images"], Field(description="what the stage is trained on")
    ] = "images"
    epochs: Annotated[int, Field(ge=1, le=MOST_EPOCHS, description="epochs of the stage")]
    lr: Annotated[
        float | None, Field(gt=0, description="learning rate; default: that of the recipe")
    ] = None
    freeze_backbone: Annotated[bool, Field(description="train only the head")] = False
    start_from: Annotated[
        Literal["best", "last"], Field(description="weights of the previous stage to start from")
    ] = "best"
    options: Annotated[
        dict[str, Any],
        AfterValidator(given),
        Field(description="options of the method that differ in this stage"),
    ] = field(default_factory=dict)
