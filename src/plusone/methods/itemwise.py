"""Methods whose loss is one table, reduced, in which no item depends on another."""

from __future__ import annotations

from torch import Tensor

from plusone.losses import reduce
from plusone.losses.reduction import Reduction
from plusone.methods.base import Method
from plusone.types import Batch, Clock, Outputs


class Itemwise(Method):
    """Write `table`, and `known` if the table depends on more than the observed labels.

    The items of many trainings can then share one call of it. So it must depend on nothing but its
    arguments, the options, the number of classes and the expected positives; what is a training's
    own (its seed, its memory) goes into `known`. Methods with several terms or views write
    `tables`, and `weight` where a term does not count fully.
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
        logits = tuple(out.logits for out in outs)
        terms = {}
        for name, table in self.tables(logits, self.known(batch, clock), clock).items():
            value, weight = reduce(table, self.reduction), self.weight(name)
            terms[name] = value if weight == 1 else weight * value
        return terms
