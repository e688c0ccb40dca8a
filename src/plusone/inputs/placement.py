"""Where inputs are: on the device, streamed to it in batches, or divided among ranks.

Features that fit are moved to the device once. Where several ranks train together on features, each
holds a contiguous part of the items and computes the rows of a batch that it holds; the result is
that of one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.device import free_memory
from plusone.inputs.loader import ALL, ArrayInputs, Inputs, MappedInputs, SomeInputs
from plusone.parallel.division import Share, even_owners
from plusone.parallel.processes import own_rows, world

IN_MEMORY = 1 << 29  # bytes that a process holds in the memory of the CPU
MOST_OF_MEMORY = 0.5  # share of the free memory of a device that features may take


def place(inputs: Inputs, device: torch.device) -> Inputs:
    """The same inputs with batches on the device.

    Features in memory are moved there as a whole if they take at most half of its free memory.

    Args:
        inputs: The inputs, in the memory of the CPU.
        device: Where batches are needed.
    """
    if device.type == "cpu":
        return inputs
    if isinstance(inputs, ArrayInputs) and inputs.x.dtype != torch.uint8:
        free = free_memory(device)
        if inputs.x.device == device:
            return inputs
        if free is None or inputs.x.nbytes <= MOST_OF_MEMORY * free:
            return ArrayInputs(inputs.x.to(device))
    return StreamedInputs(inputs, device)


@dataclass(frozen=True)
class StreamedInputs:
    """Inputs whose batches are copied to a device; with CUDA while it still works on the last.

    Args:
        inputs: The inputs, in the memory of the CPU.
        device: Where the batches are copied to.
    """

    inputs: Inputs
    device: torch.device

    def __len__(self) -> int:
        return len(self.inputs)

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int, share: Share = ALL
    ) -> Iterator[tuple[Tensor, ...]]:
        # Here, not in the generator: workers begin at once.
        return self._moved(self.inputs.batches(order, batch_size, views, seed, share))

    def _moved(self, batches: Iterator[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
        pinned = self.device.type == "cuda"  # only then a copy does not wait
        for batch in batches:
            # Equal views stay one tensor, so that it is forwarded once.
            moved = {
                id(view): (view.pin_memory() if pinned else view).to(self.device, non_blocking=True)
                for view in batch
            }
            yield tuple(moved[id(view)] for view in batch)

    def boxes(self, views: Sequence[str], n: int, seed: int) -> Tensor | None:
        return self.inputs.boxes(views, n, seed)


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
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int, share: Share = ALL
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
    """Inputs with batches on the device, of which each rank holds a part if they are features.

    A part that is too large, for half of the free memory of the device or for `IN_MEMORY` on the
    CPU, stays where it is: in a mapped file that the processes of a machine share.

    Args:
        inputs: All inputs.
        device: Where batches are needed.
    """
    features = isinstance(inputs, MappedInputs) or (
        isinstance(inputs, ArrayInputs) and inputs.x.is_floating_point()
    )
    if not features or len(inputs) < world()[1]:
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
