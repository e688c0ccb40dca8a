"""Methods that are one loss function and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from torch import Tensor

from plusone.losses import Reduction, reduce
from plusone.methods._base import Method, Options
from plusone.types import Batch, Clock, Outputs, TrainLabels

LossFunction = Callable[..., Tensor]


class Pointwise(Method[Options]):
    """Reduces `function(logits, observed, **options)`.

    Args:
        labels: What is known of the training items.
        options: Passed on to the function by name.
        function: An unreduced loss `[..., L]` from `plusone.losses`.
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

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o = self.options
        settings = {entry.name: getattr(o, entry.name) for entry in dataclasses.fields(o)}
        losses = self.function(outs[0].logits, batch.observed, **settings)
        return {"loss": reduce(losses, self.reduction)}


def pointwise(
    function: LossFunction, reduction: Reduction = "mean"
) -> Callable[[TrainLabels, Options], Method[Options]]:
    """A `build` for the method table: the method that minimises this function.

    Args:
        function: An unreduced loss of logits and labels, elementwise on `[..., L]`.
        reduction: How its values become one number.
    """

    def build(labels: TrainLabels, options: Options) -> Method[Options]:
        return Pointwise(labels, options, function=function, reduction=reduction)

    return build
