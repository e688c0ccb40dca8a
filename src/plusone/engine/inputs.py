"""Inputs of a model: arrays in memory, arrays in files, or image files decoded by worker processes.

All give batches in a wanted order, one tensor per wanted view (`plusone.engine.views`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from plusone.data.images import Aspect, decode
from plusone.data.lazy import LazyArray
from plusone.engine.views import View, make_views, own_places
from plusone.errors import InputError

ALL = (0, 1)  # the share of a process that is alone
BLOCK = 1 << 20  # numbers gathered at once, unless one batch has more


class Inputs(Protocol):
    """What the engine needs of inputs."""

    def __len__(self) -> int: ...

    def batches(
        self,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        share: tuple[int, int] = ALL,
    ) -> Iterator[tuple[Tensor, ...]]:
        """Batches of the items `order`, each a tuple with one `[B, ...]` tensor per view.

        With a share (the number of a process, and how many there are) these are this process's rows
        of each batch; a last batch without any is left out.
        """
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
        self,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        share: tuple[int, int] = ALL,
    ) -> Iterator[tuple[Tensor, ...]]:
        images = self.x.ndim == 4 and self.x.dtype == torch.uint8  # else they are feature maps
        drawn = make_views(views, len(order), seed, flip=self.flip and images)
        if share != ALL:
            places, batch_size = own_places(len(order), batch_size, share)
            order, drawn = order[places], [view.at(places) for view in drawn]
        if not len(order):
            return
        first = int(order[0])
        as_held = torch.equal(order, torch.arange(first, first + len(order)))
        for rows in _blocks(len(order), batch_size, self.x[0].numel()):
            if as_held:  # nothing to gather
                x = self.x[first + rows.start : first + min(rows.stop, len(order))]
            else:
                x = torch.index_select(self.x, 0, order[rows])
            if x.dtype == torch.float16:
                x = x.float()
            parts = [view.many(x, rows) if images else x for view in drawn]
            yield from zip(*(torch.split(part, batch_size) for part in parts), strict=True)

    def at(self, rows: Tensor) -> Tensor:
        """Some rows as they are held."""
        return self.x[rows]


@dataclass(frozen=True)
class MappedInputs:
    """Features that stay where they lie, usually in a file; batches are gathered from there.

    They are the same numbers that `ArrayInputs` would give.

    Args:
        x: Features in floats, `[N, D]` or `[N, T, D]`.
    """

    x: LazyArray

    def __len__(self) -> int:
        return len(self.x)

    def batches(
        self,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        share: tuple[int, int] = ALL,
    ) -> Iterator[tuple[Tensor, ...]]:
        make_views(views, len(order), seed, flip=False)  # refuses names of views that do not exist
        if share != ALL:
            places, batch_size = own_places(len(order), batch_size, share)
            order = order[places]
        for rows in _blocks(len(order), batch_size, math.prod(self.x.shape[1:])):
            for part in torch.split(self.at(order[rows]).float(), batch_size):
                yield (part,) * len(views)

    def at(self, rows: Tensor) -> Tensor:
        """Some rows as they are held."""
        return torch.from_numpy(self.x[rows.numpy()])


@dataclass(frozen=True)
class SomeInputs:
    """Some items of other inputs; nothing is copied.

    Args:
        inputs: The other ones.
        rows: Which of them, int64 `[n]`.
    """

    inputs: Inputs
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def batches(
        self,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        share: tuple[int, int] = ALL,
    ) -> Iterator[tuple[Tensor, ...]]:
        return self.inputs.batches(self.rows[order], batch_size, views, seed, share)


def _blocks(n: int, batch_size: int, numbers: int) -> Iterator[slice]:
    """Whole batches of `n` items together: gathering has a price per call.

    Args:
        n: How many items.
        batch_size: Items in a batch.
        numbers: Numbers in an item.
    """
    block = max(1, BLOCK // max(batch_size * numbers, 1)) * batch_size
    for start in range(0, n, block):
        yield slice(start, start + block)


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
        self,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        share: tuple[int, int] = ALL,
    ) -> Iterator[tuple[Tensor, ...]]:
        drawn = make_views(views, len(order), seed, flip=self.flip)
        if share != ALL:
            places, batch_size = own_places(len(order), batch_size, share)
            order, drawn = order[places], [view.at(places) for view in drawn]
            if not len(order):
                return
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
