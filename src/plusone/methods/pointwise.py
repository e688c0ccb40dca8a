"""Methods that are one loss function and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from plusone import losses
from plusone.losses.reduction import Reduction
from plusone.methods.base import Method, Options
from plusone.methods.itemwise import Itemwise
from plusone.types import Clock, Stage, TrainLabels

LossFunction = Callable[..., Tensor]


class Pointwise(Itemwise):
    """Reduces `function(logits, observed, **options)`.

    Args:
        labels: What is known of the training items.
        options: Passed on to the function by name.
        function: An unreduced loss `[B, L]` from `plusone.losses`.
        reduction: How its values become one number.
    """

    def __init__(
        self,
        labels: TrainLabels,
        options: Options,
        *,
        function: LossFunction,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(labels, options)
        self.function, self.reduction = function, reduction
        self.keywords = _fields(options)

    def begin_stage(self, stage: Stage) -> None:
        super().begin_stage(stage)
        self.keywords = _fields(self.options)

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        return self.function(logits, *known, **self.keywords)


def pointwise(
    function: LossFunction, reduction: Reduction = "mean"
) -> Callable[[TrainLabels, Any], Method]:
    """A `build` for the method table: the method that minimises this function."""

    def build(labels: TrainLabels, options: Options) -> Method:
        return Pointwise(labels, options, function=function, reduction=reduction)

    return build


def _fields(options: Options) -> dict[str, Any]:
    return {entry.name: getattr(options, entry.name) for entry in dataclasses.fields(options)}


@dataclass(frozen=True)
class Smoothing(Options):
    """`bce_ls`, `an_ls`: eps of the paper; "released" smooths by eps instead of eps / 2."""

    eps: float = 0.1
    variant: str = "paper"


@dataclass(frozen=True)
class AsymmetricSmoothing(Options):
    """`an_als`: smoothing of seen labels and of assumed negatives."""

    eps_p: float = 0.1
    eps_n: float = 0.1
    variant: str = "paper"


@dataclass(frozen=True)
class NegativeSmoothing(AsymmetricSmoothing):
    """`n_ls`: only assumed negatives are smoothed."""

    eps_p: float = 0.0


@dataclass(frozen=True)
class Weak(Options):
    """`wan`: weight of an assumed negative; None is 1 / (L - 1)."""

    gamma: float | None = None


@dataclass(frozen=True)
class Focal(Options):
    """`focal`."""

    gamma: float = 2.0


@dataclass(frozen=True)
class Asymmetric(Options):
    """`asl`: focusing of unobserved and of seen labels, and the probability shift."""

    gamma_neg: float = 4.0
    gamma_pos: float = 0.0
    shift: float = 0.0


@dataclass(frozen=True)
class ShiftedAsymmetric(Asymmetric):
    """`asl_ps`."""

    shift: float = 0.05


@dataclass(frozen=True)
class Hill(Options):
    """`hill`: lambda of the hill; margin and focusing of the seen positives."""

    lam: float = 1.5
    margin: float = 1.0
    gamma: float = 2.0


@dataclass(frozen=True)
class Entropy(Options):
    """`em`: weight of the entropy; published: VOC 0.2, COCO and NUS 0.1, CUB 0.01."""

    alpha: float = 0.1


@dataclass(frozen=True)
class EntropyMinimization(Options):
    """`entmin`: `em` with its sign turned; `negatives` adds the assumed negatives' cost."""

    alpha: float = 0.1
    negatives: bool = False


def smoothed_assume_negative(
    z: Tensor, y: Tensor, *, eps: float = 0.1, variant: losses.Variant = "paper"
) -> Tensor:
    """`an_ls`: one eps for seen labels and assumed negatives."""
    return losses.assume_negative_smoothed(z, y, eps_p=eps, eps_n=eps, variant=variant)
