"""Inputs on the device: features that fit are moved there once, everything else in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.device import free_memory
from plusone.parallel.sharing import Share
from plusone.training.loader import ALL, ArrayInputs, Inputs

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
        self,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        share: Share = ALL,
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
