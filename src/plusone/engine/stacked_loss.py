"""Losses of many trainings of one method in one step, and their derivatives.

Trainings are numbered seed by seed: S seeds, each with R trainings that see the same batches. The
logits of a step are `[S, B, R, L]`.
"""

from __future__ import annotations

from typing import Protocol, cast

import torch
from torch import Tensor

from plusone.methods.base import Method
from plusone.methods.itemwise import Itemwise
from plusone.methods.slopes import Sloped, TableSlopes, is_itemwise
from plusone.types import Batch, Clock, Outputs


class StackedLoss(Protocol):
    """Gives the loss of each training and its derivative, step by step."""

    def __call__(self, logits: Tensor, batch: Batch, clock: Clock) -> Sloped:
        """What the losses say of one step.

        Args:
            logits: `[S, B, R, L]`.
            batch: Its one view is `[S, B, D]`, its labels `[S, B, L]`, its index `[S, B]`.
            clock: Where training is.

        Returns:
            Terms as `Ledger.add` takes them, and the derivatives `[S, B, R, L]`.
        """
        ...


def stacked_loss(methods: list[list[Method]]) -> StackedLoss:
    """The fastest way for a method, of which each training has one: a row per seed, `S x R`."""
    if is_itemwise(methods[0][0]):
        return OneTable(cast(list[list[Itemwise]], methods))
    return OneByOne(methods)


class OneTable:
    """For `Itemwise` methods: the items of all trainings are rows of one table."""

    def __init__(self, methods: list[list[Itemwise]]) -> None:
        self.methods, self.first = methods, methods[0][0]
        self.slopes = TableSlopes(self.first)
        self.plain = type(self.first).known is Itemwise.known
        # Without memory, what is known can depend on the seed but not on the training.
        self.remembers = next(self.first.buffers(), None) is not None

    def __call__(self, logits: Tensor, batch: Batch, clock: Clock) -> Sloped:
        shape = logits.shape
        rows = logits.view(-1, shape[3])
        tables, slope = self.slopes(rows, self.known(logits, batch, clock), clock)
        part = self.slopes.part(shape[1], shape[3])
        terms = {name: table.view(shape) for name, table in tables.items()}
        return Sloped(terms, self.slopes.factors(part), slope.view(shape), part)

    def known(self, logits: Tensor, batch: Batch, clock: Clock) -> tuple[Tensor, ...]:
        """What the tables must know, `[S * B * R, L]` each."""
        shape = logits.shape
        if self.plain:
            found = [batch.observed.unsqueeze(2)]
        else:
            used = [row if self.remembers else row[:1] for row in self.methods]
            each = [
                [method.known(of_seed(batch, seed, 1), clock) for method in row]
                for seed, row in enumerate(used)
            ]
            found = [
                torch.stack([torch.stack([known[place] for known in row], 1) for row in each])
                for place in range(len(each[0][0]))
            ]
        return tuple(table.expand(shape).reshape(-1, shape[3]) for table in found)


class OneByOne:
    """For all other methods: each training's own loss, and one pass back through all of them."""

    def __init__(self, methods: list[list[Method]]) -> None:
        self.methods = methods

    def __call__(self, logits: Tensor, batch: Batch, clock: Clock) -> Sloped:
        leaves, terms = [], []
        with torch.enable_grad():
            for seed, row in enumerate(self.methods):
                own = of_seed(batch, seed, len(row[0].views))
                for place, method in enumerate(row):
                    leaf = logits[seed, :, place].contiguous().requires_grad_()
                    outs = (Outputs(leaf, own.views[0]),) * len(own.views)
                    leaves.append(leaf)
                    terms.append(method.loss(outs, own, clock))
        values = [term for each in terms for term in each.values() if term.requires_grad]
        slopes = torch.stack(torch.autograd.grad(values, leaves))
        found = {name: torch.stack([each[name].detach() for each in terms]) for name in terms[0]}
        by_seed = slopes.view(len(self.methods), -1, *slopes.shape[1:])
        return Sloped(found, {}, by_seed.transpose(1, 2), 1.0)


def of_seed(batch: Batch, seed: int, n_views: int) -> Batch:
    """One seed's part of a batch; feature vectors look the same in every view."""
    views = (batch.views[0][seed],) * n_views
    return Batch(views, batch.observed[seed], batch.index[seed])
