"""Inputs of a model: arrays in memory, or image files decoded by worker processes.

Both give batches in a wanted order, one tensor per wanted view. Views have names:

| view | images | feature vectors |
| --- | --- | --- |
| `plain` | as they are | as they are |
| `weak` | flipped left to right with probability 0.5, if the recipe says `flip` | as they are |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from plusone.data.images import decode
from plusone.errors import InputError
from plusone.seeds import generator

VIEWS = ("plain", "weak")
BLOCK = 1 << 20  # numbers gathered at once, unless one batch has more


class Inputs(Protocol):
    """What the engine needs of inputs."""

    def __len__(self) -> int: ...

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int
    ) -> Iterator[tuple[Tensor, ...]]:
        """Batches of the items `order`, each a tuple with one `[B, ...]` tensor per view."""
        ...


def check_views(views: Sequence[str]) -> None:
    """Refuses names of views that do not exist."""
    for view in views:
        if view not in VIEWS:
            raise ValueError(f"unknown view {view!r}; known: {', '.join(VIEWS)}")


def flips(view: str, n: int, seed: int, flip: bool) -> npt.NDArray[np.bool_]:
    """Which of `n` items are mirrored in a view, bool `[n]`."""
    if view != "weak" or not flip:
        return np.zeros(n, dtype=np.bool_)
    draws = torch.rand(n, generator=generator(seed, view))
    return (draws < 0.5).numpy()


@dataclass(frozen=True)
class ArrayInputs:
    """Inputs held in memory: no loader, no work per item.

    Args:
        x: `[N, D]` features or `[N, C, H, W]` images.
        flip: Whether the weak view mirrors images.
    """

    x: Tensor
    flip: bool = False

    def __len__(self) -> int:
        return len(self.x)

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int
    ) -> Iterator[tuple[Tensor, ...]]:
        check_views(views)
        if not len(order):
            return
        mirrored = self.flip and self.x.ndim == 4
        masks = [
            torch.from_numpy(flips(view, len(order), derive_view(seed, number), mirrored))
            for number, view in enumerate(views)
        ]
        # Small batches are cut from larger blocks: gathering has a price per call.
        block = max(1, BLOCK // max(batch_size * self.x[0].numel(), 1)) * batch_size
        for start in range(0, len(order), block):
            rows = slice(start, start + block)
            x = torch.index_select(self.x, 0, order[rows])
            if x.dtype == torch.float16:
                x = x.float()
            if mirrored:
                turned = x.flip(-1)
                parts = [torch.where(mask[rows].view(-1, 1, 1, 1), turned, x) for mask in masks]
            else:
                parts = [x] * len(views)
            yield from zip(*(torch.split(part, batch_size) for part in parts), strict=True)


@dataclass(frozen=True)
class FileInputs:
    """Images on disk, decoded and resized by worker processes each time they are needed.

    Args:
        paths: One file per item.
        size: Side of the square the images are resized to.
        flip: Whether the weak view mirrors images.
        workers: Worker processes; 0 decodes in this process.
    """

    paths: tuple[Path, ...]
    size: int
    flip: bool = True
    workers: int = 2

    def __len__(self) -> int:
        return len(self.paths)

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int
    ) -> Iterator[tuple[Tensor, ...]]:
        check_views(views)
        rows = order.tolist()
        masks = [
            flips(view, len(rows), derive_view(seed, number), self.flip)
            for number, view in enumerate(views)
        ]
        dataset = _Decoding([self.paths[row] for row in rows], self.size, masks)
        loader: DataLoader[tuple[Tensor, ...]] = DataLoader(
            dataset, batch_size=batch_size, num_workers=self.workers, worker_init_fn=_one_thread
        )
        problem = ""
        try:
            for parts in loader:
                yield tuple(parts)
        except InputError as error:
            # Workers wrap the message in a traceback; its last line is the sentence itself.
            problem = str(error).strip().splitlines()[-1].rpartition("InputError: ")[2]
            error.__traceback__ = None  # it would keep the loader alive, and its end waits 10 s
        if problem:
            raise InputError(problem)


class _Decoding(Dataset[tuple[Tensor, ...]]):
    """Decodes one file and gives its views."""

    def __init__(self, paths: list[Path], size: int, masks: list[npt.NDArray[np.bool_]]) -> None:
        self.paths, self.size, self.masks = paths, size, masks

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, position: int) -> tuple[Tensor, ...]:
        image = decode(self.paths[position], self.size)
        return tuple(image.flip(-1) if mask[position] else image for mask in self.masks)


def derive_view(seed: int, number: int) -> int:
    """A seed of its own for each view of a batch, so that two weak views differ."""
    return seed + 7919 * number


def _one_thread(worker: int) -> None:
    """Decoding workers share the cores; more threads each would only get in the way."""
    torch.set_num_threads(1)
