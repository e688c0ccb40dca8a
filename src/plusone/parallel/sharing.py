"""A training step divided among processes: each forwards its rows, all compute the whole loss.

The rows of a batch are divided among the processes. The model's outputs are all-gathered in the
order of the batch, so every process computes the same loss and a method need not know about the
others: its memory is the same everywhere. Each process's gradient of the model comes from its own
rows, and the gradients are summed. The method's own parameters see the whole batch everywhere.
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
from plusone.parallel._whole_batch import Rows, see_whole_batch
from plusone.parallel.processes import (
    all_gather,
    all_gather_equal,
    all_reduce,
    own_rows,
    row_counts,
    world,
)
from plusone.types import Outputs

TOLERANCE = 1e-4  # relative, between the weights of the processes


@dataclass(frozen=True)
class Division:
    """How the rows of one step, `views` times `items`, are divided among the processes.

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
        """This process's rows, int64; empty if there are fewer items than processes."""
        return self._rows(own_rows(self.items))

    @cached_property
    def places(self) -> Tensor:
        """The position of each row of the batch in the concatenated rows of all processes."""
        parts = torch.arange(self.items).tensor_split(world()[1])
        return torch.argsort(torch.cat([self._rows(part) for part in parts]))

    def whole(self, own: Outputs) -> Outputs:
        """The outputs of the whole batch, from those of this process's rows."""
        parts = (own.logits, own.features, own.embeddings, own.maps)
        return Outputs(*(None if part is None else self._whole(part) for part in parts))  # type: ignore[arg-type]

    def _whole(self, part: Tensor) -> Tensor:
        rows = all_gather(part[: len(self.own)], self.counts)  # without a placeholder row
        return rows if self.views == 1 else rows[self.places]

    def _rows(self, items: Tensor) -> Tensor:
        return (self.items * torch.arange(self.views)[:, None] + items).flatten()


class Inputs(Protocol):
    """The part of `plusone.training.loader.Inputs` that is needed here."""

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
    """Divides the steps of a training among the processes.

    Args:
        model: The model; its batch norms and dropout are replaced, see `see_whole_batch`.
    """

    def __init__(self, model: nn.Module) -> None:
        self.rows = Rows(all_gather_equal)
        self._divisions: dict[tuple[int, int], Division] = {}
        see_whole_batch(model, self.rows)

    def batches(
        self, inputs: Inputs, order: Tensor, batch_size: int, views: Sequence[str], seed: int
    ) -> Iterator[tuple[Tensor, ...]]:
        """This process's rows of every batch; a placeholder row where it has none."""
        own = inputs.batches(order, batch_size, views, seed, world())
        for start in range(0, len(order), batch_size):
            if len(own_rows(min(batch_size, len(order) - start))):
                yield next(own)
            else:
                yield next(iter(inputs.batches(order[:1], 1, views, seed)))

    def begin_step(self, items: int, views: int) -> Division:
        """Sets the rows that the layers will see in this step."""
        division = self._divisions.setdefault((items, views), Division(items, views))
        self.rows.total, self.rows.counted = items * views, len(division.own) > 0
        self.rows.own = division.own if self.rows.counted else torch.zeros(views, dtype=torch.int64)
        return division

    def add_gradients(self, optimizer: Optimizer, method: Method) -> None:
        """Sums the gradients of the model over all processes."""
        own = set(method.parameters())
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        all_reduce([w.grad for w in weights if w.grad is not None and w not in own])


def check_equal_weights(model: nn.Module, method: nn.Module) -> None:
    """Raises an error if the weights of the processes have drifted apart."""
    if world()[1] == 1:
        return
    tensors = (*model.state_dict().values(), *method.state_dict().values())
    checksums = all_gather_equal(torch.stack([_checksum(tensor) for tensor in tensors]))
    if not torch.allclose(checksums, checksums[:1], rtol=TOLERANCE, equal_nan=True):
        raise RunError(
            "the processes do not have the same weights any more; all need the same data, the same "
            "versions of all packages and the same kind of processor"
        )


def _checksum(tensor: Tensor) -> Tensor:
    """A checksum of a tensor, computed without copying it."""
    checksum: Tensor = tensor.sum(dtype=torch.float64)
    if tensor.is_floating_point():
        checksum = torch.linalg.vector_norm(tensor, 1, dtype=torch.float64)
    return checksum
