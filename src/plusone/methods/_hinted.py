"""What methods with hints share: the hints of a batch, and pseudo-labels made of them."""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.methods._base import Method, O_co
from plusone.methods._tables import rows_of
from plusone.types import Batch, TrainLabels


class Hinted(Method[O_co]):
    """A method with the hints of the training items.

    They are data, not memory: they are not saved with the model, and a method that was built
    without them (to predict) has none for any item.
    """

    per_item = ("hints",)

    def __init__(self, labels: TrainLabels, options: O_co) -> None:
        super().__init__(labels, options)
        self.hints: Tensor | None
        self.register_buffer("hints", labels.hints, persistent=False)

    def hints_of(self, batch: Batch) -> Tensor:
        """Hints `[..., L]` in the shape of the labels of a batch; NaN where there is none."""
        if self.hints is None:
            return torch.full_like(batch.observed, torch.nan)
        return rows_of(self.hints, batch.index).expand_as(batch.observed)


def highest(hints: Tensor, top: int) -> Tensor:
    """The labels with an item's `top` highest hints, bool `[..., L]`; never one without a hint.

    >>> highest(torch.tensor([0.1, 0.9, torch.nan, 0.5]), 2).tolist()
    [False, True, False, True]
    """
    known = ~hints.isnan()
    order = hints.nan_to_num(nan=-1.0).argsort(stable=True, dim=-1, descending=True)
    return (order.argsort(-1) < top) & known


def lowest(hints: Tensor, share: float) -> Tensor:
    """The labels with the lowest hints of an item, bool `[..., L]`.

    Args:
        hints: `[..., L]`, NaN where there is none.
        share: Share of the hints that an item has; their number is rounded down.

    >>> lowest(torch.tensor([0.1, 0.9, torch.nan, 0.5]), 0.5).tolist()
    [True, False, False, False]
    """
    known = ~hints.isnan()
    # 0.59 x 100 is a little less than 59 in floating point.
    number = (share * known.sum(-1, keepdim=True) + 1e-3).floor()
    order = hints.nan_to_num(nan=2.0).argsort(stable=True, dim=-1)
    return (order.argsort(-1) < number) & known
