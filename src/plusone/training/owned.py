"""Features of which each of several processes holds a part.

Where processes train together on features, each holds a contiguous part of the items, in memory or
on its device, and computes the rows of a batch that it holds. The result is that of one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.device import free_memory
from plusone.parallel.processes import own_rows, world
from plusone.parallel.sharing import Share, even_owners
from plusone.training.loader import ALL, ArrayInputs, Inputs, MappedInputs, SomeInputs
from plusone.training.placement import MOST_OF_MEMORY, place

IN_MEMORY = 1 << 29  # bytes that a process holds in the memory of the CPU


@dataclass(frozen=True)
class OwnedInputs:
    """Features of which this process holds the rows `own_rows(n)`.

    Args:
        x: Their features, `[m, D]` or `[m, ...]`.
        n: Items of all processes.
    """

    x: Tensor
    n: int

    def __len__(self) -> int:
        return self.n

    def batches(
        self,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        share: Share = ALL,
    ) -> Iterator[tuple[Tensor, ...]]:
        """As all `Inputs`; with a share, the rows of each batch that this process holds."""
        first = int(own_rows(self.n)[0])
        own = (order >= first) & (order < first + len(self.x))
        if share == ALL and not bool(own.all()):
            raise ValueError("rows were asked for that another process holds")
        counts = [int(part.sum()) for part in torch.split(own, batch_size)]
        rows = torch.split((order[own] - first).to(self.x.device), [c for c in counts if c])
        for part in rows:
            yield (self.x[part].float(),) * len(views)

    def boxes(self, views: Sequence[str], n: int, seed: int) -> Tensor | None:
        return None


def own_part(inputs: Inputs, device: torch.device) -> Inputs:
    """Inputs with batches on the device; of several processes each holds a part of the features.

    A part that is too large, for half of the free memory of the device or for `IN_MEMORY` on the
    CPU, stays where it is: in a mapped file that the processes of a machine share.

    Args:
        inputs: All inputs.
        device: Where batches are needed.
    """
    features = isinstance(inputs, MappedInputs) or (
        isinstance(inputs, ArrayInputs) and inputs.x.is_floating_point()
    )
    if world()[1] == 1 or not features or len(inputs) < world()[1]:
        return place(inputs, device)
    assert isinstance(inputs, ArrayInputs | MappedInputs)
    free = free_memory(device)
    room = IN_MEMORY if free is None else MOST_OF_MEMORY * free
    if inputs.x.nbytes / world()[1] > room:
        return place(inputs, device)
    return OwnedInputs(inputs.at(own_rows(len(inputs))).to(device), len(inputs))


def owners_of(inputs: Inputs, rows: Tensor) -> Tensor | None:
    """The rank that holds each of some rows, int64 `[n]`; None if every process holds all."""
    while isinstance(inputs, SomeInputs):
        rows, inputs = inputs.rows[rows], inputs.inputs
    return even_owners(len(inputs))[rows] if isinstance(inputs, OwnedInputs) else None
