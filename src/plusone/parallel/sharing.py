"""A step divided among processes: each forwards its rows, all compute the loss of the whole batch.

The batch of the recipe is divided by rows. What the model says about the rows is all_gather, in the
order of the batch, so that every process computes the same loss and a method need not know that
there are others: its memory is the same everywhere. Each process's gradient of the model comes from
its own rows, and these are added up. The method's own parameters see the whole batch everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from plusone.errors import RunError
from plusone.methods.base import Method
from plusone.parallel.processes import (
    all_gather,
    all_gather_equal,
    all_reduce,
    own_rows,
    row_counts,
    world,
)
from plusone.parallel.whole_batch import Rows, see_whole_batch
from plusone.types import Outputs

TOLERANCE = 1e-4  # relative, between the weights of the processes


@dataclass(frozen=True)
class Division:
    """How the rows of one step are divided: `views` times `items`, on top of each other.

    Args:
        items: Items of the whole batch.
        views: Views of each.
    """

    items: int
    views: int

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each process."""
        return [self.views * length for length in row_counts(self.items)]

    @cached_property
    def own(self) -> Tensor:
        """This process's rows among all, int64; empty if the batch is too small for it."""
        return self._rows(own_rows(self.items))

    @cached_property
    def places(self) -> Tensor:
        """Where the rows of the batch are when those of all processes lie on top of each other."""
        parts = torch.arange(self.items).tensor_split(world()[1])
        return torch.argsort(torch.cat([self._rows(part) for part in parts]))

    def whole(self, own: Outputs) -> Outputs:
        """What the model says about the whole batch, from what it says about the own rows."""
        parts = (own.logits, own.features, own.embeddings, own.maps)
        return Outputs(*(None if part is None else self._whole(part) for part in parts))  # type: ignore[arg-type]

    def _whole(self, part: Tensor) -> Tensor:
        found = all_gather(part[: len(self.own)], self.counts)  # cuts off a row that stands in
        return found if self.views == 1 else found[self.places]

    def _rows(self, items: Tensor) -> Tensor:
        return (self.items * torch.arange(self.views)[:, None] + items).flatten()


class Inputs(Protocol):
    """What can be divided among processes, see `plusone.training.loader`."""

    def batches(
        self,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        share: tuple[int, int] = ...,
    ) -> Iterator[tuple[Tensor, ...]]:
        """Batches of the items `order`; with a share, this process's rows of each."""
        ...


class Sharing:
    """Training with others.

    Args:
        model: The model; layers that look beyond one row are replaced, see `see_whole_batch`.
    """

    def __init__(self, model: nn.Module) -> None:
        self.rows = Rows(all_gather_equal)
        self._divisions: dict[tuple[int, int], Division] = {}
        see_whole_batch(model, self.rows)

    def batches(
        self, inputs: Inputs, order: Tensor, batch_size: int, views: Sequence[str], seed: int
    ) -> Iterator[tuple[Tensor, ...]]:
        """This process's rows of every batch; one that stands in where it has none."""
        mine = inputs.batches(order, batch_size, views, seed, world())
        for start in range(0, len(order), batch_size):
            if len(own_rows(min(batch_size, len(order) - start))):
                yield next(mine)
            else:
                yield next(iter(inputs.batches(order[:1], 1, views, seed)))

    def begin_step(self, items: int, views: int) -> Division:
        """Tells the layers which rows they are about to see."""
        found = self._divisions.setdefault((items, views), Division(items, views))
        self.rows.total, self.rows.counted = items * views, len(found.own) > 0
        self.rows.own = found.own if self.rows.counted else torch.zeros(views, dtype=torch.int64)
        return found

    def add_gradients(self, optimizer: Optimizer, method: Method) -> None:
        """Adds up the gradients of the model over all processes."""
        own = set(method.parameters())
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        all_reduce([w.grad for w in weights if w.grad is not None and w not in own])


def check_equal_weights(model: nn.Module, method: nn.Module) -> None:
    """Refuses to go on if the processes do not have the same weights any more."""
    if world()[1] == 1:
        return
    tensors = (*model.state_dict().values(), *method.state_dict().values())
    all_sizes = all_gather_equal(torch.stack([_size(tensor) for tensor in tensors]))
    if not torch.allclose(all_sizes, all_sizes[:1], rtol=TOLERANCE, equal_nan=True):
        raise RunError(
            "the processes do not have the same weights any more; all need the same data, the same "
            "versions of all packages and the same kind of processor"
        )


def _size(tensor: Tensor) -> Tensor:
    """A number that changes with the tensor, without a copy of it."""
    size: Tensor = tensor.sum(dtype=torch.float64)
    if tensor.is_floating_point():
        size = torch.linalg.vector_norm(tensor, 1, dtype=torch.float64)
    return size
