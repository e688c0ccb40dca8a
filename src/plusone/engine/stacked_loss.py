"""Losses of many trainings of one method in one step, and their derivatives.

Trainings are numbered seed by seed: S seeds, each with R trainings that see the same batches. The
logits of a step are `[S, B, R, L]`.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, cast

import torch
from torch import Tensor

from plusone.methods.base import Method
from plusone.methods.itemwise import Itemwise
from plusone.types import Batch, Clock, Outputs

K = TypeVar("K")
Sums = dict[str, Tensor]


class StackedLoss(Protocol):
    """Gives derivatives step by step, and adds up the values of the loss terms meanwhile."""

    def slope(self, logits: Tensor, batch: Batch, clock: Clock) -> Tensor:
        """Derivative of each training's loss.

        Args:
            logits: `[S, B, R, L]`.
            batch: Its one view is `[S, B, D]`, its labels `[S, B, L]`, its index `[S, B]`.
            clock: Where training is.

        Returns:
            `[S, B, R, L]`.
        """
        ...

    def take_sums(self) -> Sums:
        """The values since the last call, added up: `[S * R]` for each loss term."""
        ...


def stacked_loss(methods: list[list[Method]]) -> StackedLoss:
    """The fastest way for a method, of which each training has one: a row per seed, `S x R`."""
    first = methods[0][0]
    if isinstance(first, Itemwise) and type(first).loss is Itemwise.loss:
        return OneTable(cast(list[list[Itemwise]], methods))
    return OneByOne(methods)


class OneTable:
    """For `Itemwise` methods: the items of all trainings are rows of one table."""

    def __init__(self, methods: list[list[Itemwise]]) -> None:
        self.methods, self.first = methods, methods[0][0]
        self.plain = type(self.first).known is Itemwise.known
        # Without memory, what is known can depend on the seed but not on the training.
        self.remembers = next(self.first.buffers(), None) is not None
        self.shares: dict[tuple[str, torch.Size], Tensor] = {}
        self.sums: dict[tuple[str, torch.Size], Tensor] = {}  # of tables; reducing each would cost

    def slope(self, logits: Tensor, batch: Batch, clock: Clock) -> Tensor:
        rows = logits.detach().view(-1, logits.shape[3]).requires_grad_()
        views, known = (rows,) * len(self.first.views), self.known(logits, batch, clock)
        tables = self.first.tables(views, known, clock)
        shares = [self.share(name, logits) for name in tables]
        (slope,) = torch.autograd.grad(list(tables.values()), rows, shares)
        for name, table in tables.items():
            add(self.sums, (name, logits.shape), table.detach())
        return slope.view_as(logits)

    def share(self, name: str, logits: Tensor) -> Tensor:
        """How much an entry of a table counts in the loss, `[S * B * R, L]`."""
        if (found := self.shares.get((name, logits.shape))) is None:
            _, n_items, _, n_classes = logits.shape
            parts = {"mean": 1 / (n_items * n_classes), "item": 1 / n_items}
            part = self.first.weight(name) * parts.get(self.first.reduction, 1.0)
            found = torch.full_like(logits, part).view(-1, n_classes)
            self.shares[name, logits.shape] = found
        return found

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

    def take_sums(self) -> Sums:
        sums: Sums = {}
        for (name, shape), tables in self.sums.items():
            values = (tables * self.shares[name, shape]).view(shape)
            add(sums, name, values.sum((1, 3)).flatten())
        self.sums = {}
        return sums


class OneByOne:
    """For all other methods: each training's own loss, and one pass back through all of them."""

    def __init__(self, methods: list[list[Method]]) -> None:
        self.methods = methods
        self.sums: Sums = {}

    def slope(self, logits: Tensor, batch: Batch, clock: Clock) -> Tensor:
        leaves, terms = [], []
        for seed, row in enumerate(self.methods):
            own = of_seed(batch, seed, len(row[0].views))
            for place, method in enumerate(row):
                leaf = logits[seed, :, place].contiguous().requires_grad_()
                outs = (Outputs(leaf, own.views[0]),) * len(own.views)
                leaves.append(leaf)
                terms.append(method.loss(outs, own, clock))
        for name in terms[0]:
            add(self.sums, name, torch.stack([each[name].detach() for each in terms]))
        values = [term for each in terms for term in each.values() if term.requires_grad]
        slopes = torch.stack(torch.autograd.grad(values, leaves))
        return slopes.view(len(self.methods), -1, *slopes.shape[1:]).transpose(1, 2)

    def take_sums(self) -> Sums:
        sums, self.sums = self.sums, {}
        return sums


def of_seed(batch: Batch, seed: int, n_views: int) -> Batch:
    """One seed's part of a batch; feature vectors look the same in every view."""
    views = (batch.views[0][seed],) * n_views
    return Batch(views, batch.observed[seed], batch.index[seed])


def add(sums: dict[K, Tensor], name: K, values: Tensor) -> None:
    """Adds values to a sum, or begins one."""
    if name in sums:
        sums[name] += values
    else:
        sums[name] = values.clone()
