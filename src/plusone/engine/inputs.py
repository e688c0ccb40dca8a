"""Inputs of a model: arrays in memory, or image files decoded by worker processes.

Both give batches in a wanted order, one tensor per wanted view (`plusone.engine.views`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from plusone.data.images import Aspect, decode
from plusone.engine.views import View, make_views
from plusone.errors import InputError

BLOCK = 1 << 20  # numbers gathered at once, unless one batch has more


class Inputs(Protocol):
    """What the engine needs of inputs."""

    def __len__(self) -> int: ...

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int
    ) -> Iterator[tuple[Tensor, ...]]:
        """Batches of the items `order`, each a tuple with one `[B, ...]` tensor per view."""
        ...


@dataclass(frozen=True)
class ArrayInputs:
    """Inputs held in memory: no loader, no work per item.

    Args:
        x: Images in bytes, `[N, C, H, W]`, or features in floats, `[N, D]` or `[N, ...]`.
        flip: Whether the weak and the strong view mirror images.
    """

    x: Tensor
    flip: bool = False

    def __len__(self) -> int:
        return len(self.x)

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int
    ) -> Iterator[tuple[Tensor, ...]]:
        images = self.x.ndim == 4 and self.x.dtype == torch.uint8  # else they are feature maps
        drawn = make_views(views, len(order), seed, flip=self.flip and images)
        if not len(order):
            return
        # Small batches are cut from larger blocks: gathering has a price per call.
        block = max(1, BLOCK // max(batch_size * self.x[0].numel(), 1)) * batch_size
        for start in range(0, len(order), block):
            rows = slice(start, start + block)
            x = torch.index_select(self.x, 0, order[rows])
            if x.dtype == torch.float16:
                x = x.float()
            parts = [view.many(x, rows) if images else x for view in drawn]
            yield from zip(*(torch.split(part, batch_size) for part in parts), strict=True)


@dataclass(frozen=True)
class FileInputs:
    """Images on disk, decoded and resized by worker processes each time they are needed.

    Args:
        paths: One file per item.
        size: Side of the square the images become.
        flip: Whether the weak and the strong view mirror images.
        workers: Worker processes; 0 decodes in this process.
        aspect: How they become square, as for `plusone.data.images.decode`.
    """

    paths: tuple[Path, ...]
    size: int
    flip: bool = True
    workers: int = 2
    aspect: Aspect = "stretch"

    def __len__(self) -> int:
        return len(self.paths)

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int
    ) -> Iterator[tuple[Tensor, ...]]:
        drawn = make_views(views, len(order), seed, flip=self.flip)
        paths = [self.paths[row] for row in order.tolist()]
        dataset = _Decoding(paths, self.size, self.aspect, drawn)
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

    def __init__(self, paths: list[Path], size: int, aspect: Aspect, views: list[View]) -> None:
        self.paths, self.size, self.aspect, self.views = paths, size, aspect, views

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int) -> tuple[Tensor, ...]:
        image = decode(self.paths[place], self.size, self.aspect)
        return tuple(view.one(image, place) for view in self.views)


def _one_thread(worker: int) -> None:
    """Decoding workers share the cores; more threads each would only get in the way."""
    torch.set_num_threads(1)
