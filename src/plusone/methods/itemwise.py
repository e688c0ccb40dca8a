"""Methods whose loss is one table, reduced, in which no item depends on another."""

from __future__ import annotations

from torch import Tensor

from plusone.losses.fused import reduced_terms
from plusone.losses.reduction import Reduction
from plusone.methods.base import Method
from plusone.types import Batch, Clock, Outputs


class Itemwise(Method):
    """Write `table`, and `known` if the table depends on more than the observed labels.

    The items of many trainings can then share one call of it, and a look at the first batches
    serves a whole epoch. So it must depend on nothing but its arguments (of the clock not on the
    step), the options, the number of classes and the expected positives; what is a training's own
    (its seed, its memory) or a batch's own goes into `known`. Methods with several terms or views
    write `tables`, and `weight` where a term does not count fully.
    """

    reduction: Reduction = "mean"

    def known(self, batch: Batch, clock: Clock) -> tuple[Tensor, ...]:
        """What the tables need to know of the batch's labels, `[B, L]` each."""
        return (batch.observed,)

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        """Losses `[B, L]` of the first view's logits."""
        raise NotImplementedError(f"{type(self).__name__} must define table()")

    def tables(
        self, logits: tuple[Tensor, ...], known: tuple[Tensor, ...], clock: Clock
    ) -> dict[str, Tensor]:
        """Losses `[B, L]` of each term, given the logits of each view."""
        return {"loss": self.table(logits[0], known, clock)}

    def weight(self, term: str) -> float:
        """Weight of a term."""
        return 1.0

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return reduced_terms(
            lambda logits, known: self.tables(logits, known, clock),
            tuple(out.logits for out in outs),
            self.known(batch, clock),
            self.reduction,
            self.weight,
            [weight for weight in self.parameters() if weight.requires_grad],
        )
