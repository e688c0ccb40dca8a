"""Batches: inputs from memory, from a mapped file or decoded by workers, and their labels.

All `Inputs` give batches in a given order, with one tensor per view. The order (`visiting_order`)
and the augmentation (`plusone.inputs._views`) of an epoch depend on their seeds alone. `prefetch`
prepares batches in a thread while the model trains.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.images import CROPS, Aspect, Crops, cut
from plusone.data.lazy import LazyArray
from plusone.data.matrix import LabelMatrix
from plusone.device import CPU
from plusone.inputs._views import draw_views, own_places
from plusone.inputs.workers import ImageWorkers, Request
from plusone.parallel.division import Share

ALL = Share()
GATHERED = 1 << 20  # numbers gathered at once, unless one batch has more
LABELS_AT_ONCE = 1 << 18  # labels made dense at once, unless one batch has more
PREFETCHED = 2  # batches waiting
THREAD = "plusone-prefetch"  # the beginning of its name

Item = TypeVar("Item")


class Inputs(Protocol):
    """The inputs of a model, in batches."""

    def __len__(self) -> int: ...

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int, share: Share = ALL
    ) -> Iterator[tuple[Tensor, ...]]:
        """Batches of the items `order`, each a tuple with one `[B, ...]` tensor per view.

        Args:
            order: Rows in the order of the epoch, int64 `[n]`.
            batch_size: Items of a batch, over all processes.
            views: Names of views: "plain", "weak", "strong" or "crop".
            seed: Seed of the augmentation.
            share: Which of several processes this is: only its rows of each batch are given, and a
                last batch without any is left out.
        """
        ...

    def boxes(self, views: Sequence[str], n: int, seed: int) -> Tensor | None:
        """Which part of its image each view shows, float `[n, V, 4]`, at all places of an epoch.

        They are those of `batches`, whichever process gives these; see `plusone.types.Batch.boxes`.
        None if the inputs are no images, or several crops of each.

        Args:
            views: Names of views.
            n: Items of the epoch.
            seed: Seed of the augmentation.
        """
        ...


@dataclass(frozen=True)
class ArrayInputs:
    """Inputs in memory.

    Args:
        x: Images in bytes, `[N, C, H, W]`, or features in floats, `[N, D]` or `[N, ...]`.
        flip: Whether the weak and the strong view flip images at random.
        crops: Which crops of images are given, see `plusone.data.images.CROPS`.
    """

    x: Tensor
    flip: bool = False
    crops: Crops = "one"

    def __len__(self) -> int:
        return len(self.x)

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int, share: Share = ALL
    ) -> Iterator[tuple[Tensor, ...]]:
        batches = self._batches(order, batch_size, views, seed, share)
        slow = self._images and not {"strong", "crop"}.isdisjoint(views)
        return prefetch(batches) if slow else batches

    def boxes(self, views: Sequence[str], n: int, seed: int) -> Tensor | None:
        shown = self._images and self.crops == "one"
        return _boxes(views, n, seed, flip=self.flip) if shown else None

    @property
    def _images(self) -> bool:
        return self.x.ndim == 4 and self.x.dtype == torch.uint8  # not feature maps

    def _batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int, share: Share
    ) -> Iterator[tuple[Tensor, ...]]:
        images = self._images
        drawn = draw_views(views, len(order), seed, flip=self.flip and images)
        if share != ALL:
            places, batch_size = own_places(len(order), batch_size, share)
            order, drawn = order[places], [view.at(places) for view in drawn]
        if not len(order):
            return
        first = int(order[0])
        contiguous = torch.equal(order, torch.arange(first, first + len(order)))
        numbers = self.x[0].numel() * len(CROPS[self.crops])
        for rows in _blocks(len(order), batch_size, numbers):
            if contiguous:  # nothing to gather
                x = self.x[first + rows.start : first + min(rows.stop, len(order))]
            else:
                x = torch.index_select(self.x, 0, order[rows].to(self.x.device))
            if x.dtype == torch.float16:
                x = x.float()
            if images and self.crops != "one":
                x = cut(x, self.crops, (x.shape[2], x.shape[3]))
                parts = [x] * len(drawn)
            else:
                parts = [view.of_batch(x, rows) if images else x for view in drawn]
            # Equal views stay one tensor, so that it is forwarded once.
            pieces = {id(part): torch.split(part, batch_size) for part in parts}
            yield from zip(*(pieces[id(part)] for part in parts), strict=True)

    def at(self, rows: Tensor) -> Tensor:
        """Some rows, unconverted."""
        return self.x[rows]


@dataclass(frozen=True)
class MappedInputs:
    """Features that are not read into memory; batches are gathered from the mapped file.

    The batches equal those of `ArrayInputs`.

    Args:
        x: Features in floats, `[N, D]` or `[N, T, D]`.
    """

    x: LazyArray

    def __len__(self) -> int:
        return len(self.x)

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int, share: Share = ALL
    ) -> Iterator[tuple[Tensor, ...]]:
        draw_views(views, len(order), seed, flip=False)  # refuses unknown views
        if share != ALL:
            places, batch_size = own_places(len(order), batch_size, share)
            order = order[places]
        for rows in _blocks(len(order), batch_size, math.prod(self.x.shape[1:])):
            for part in torch.split(self.at(order[rows]).float(), batch_size):
                yield (part,) * len(views)

    def boxes(self, views: Sequence[str], n: int, seed: int) -> Tensor | None:
        return None

    def at(self, rows: Tensor) -> Tensor:
        """Some rows, unconverted."""
        return torch.from_numpy(self.x[rows.numpy()])


@dataclass(frozen=True)
class FileInputs:
    """Image files, decoded, resized and augmented in every epoch.

    Workers begin a pass when `batches` is called, not when its first batch is asked for.

    Args:
        paths: One file per item.
        size: Side of the square the images become.
        flip: Whether the weak and the strong view flip images at random.
        workers: The processes that do it; other inputs may use the same.
        aspect: How images become square, as for `plusone.data.images.decode`.
        crops: Which crops of each image; with several a batch is `[B, V, 3, size, size]`.
    """

    paths: tuple[Path, ...]
    size: int
    flip: bool = True
    workers: ImageWorkers = field(default_factory=ImageWorkers)
    aspect: Aspect = "stretch"
    crops: Crops = "one"

    def __len__(self) -> int:
        return len(self.paths)

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int, share: Share = ALL
    ) -> Iterator[tuple[Tensor, ...]]:
        drawn = draw_views(views, len(order), seed, flip=self.flip)
        if share != ALL:
            places, batch_size = own_places(len(order), batch_size, share)
            order, drawn = order[places], [view.at(places) for view in drawn]
        if not len(order):
            return iter(())
        paths, settings = self.paths, (self.size, self.aspect, self.crops)

        def requests() -> Iterator[list[Request]]:  # without `self`, whose workers hold it
            for part in torch.split(torch.arange(len(order)), batch_size):
                yield [
                    Request(paths[row], *settings, tuple(view.of_item(place) for view in drawn))
                    for place, row in zip(part.tolist(), order[part].tolist(), strict=True)
                ]

        # Processes for a single image, such as a placeholder, would not be worth their start.
        workers = self.workers if len(order) > 1 else ImageWorkers()
        return workers.batches(requests)

    def boxes(self, views: Sequence[str], n: int, seed: int) -> Tensor | None:
        return _boxes(views, n, seed, flip=self.flip) if self.crops == "one" else None


@dataclass(frozen=True)
class SomeInputs:
    """A subset of other inputs, without a copy.

    Args:
        inputs: The other inputs.
        rows: Which rows of them, int64 `[n]`.
    """

    inputs: Inputs
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def batches(
        self, order: Tensor, batch_size: int, views: Sequence[str], seed: int, share: Share = ALL
    ) -> Iterator[tuple[Tensor, ...]]:
        return self.inputs.batches(self.rows[order], batch_size, views, seed, share)

    def boxes(self, views: Sequence[str], n: int, seed: int) -> Tensor | None:
        return self.inputs.boxes(views, n, seed)


def _boxes(views: Sequence[str], n: int, seed: int, *, flip: bool) -> Tensor:
    drawn = draw_views(views, n, seed, flip=flip)
    return torch.stack([view.boxes(n) for view in drawn], 1)


def _blocks(n: int, batch_size: int, numbers: int) -> Iterator[slice]:
    """Slices of several batches each, which are gathered at once to save calls.

    Args:
        n: How many items.
        batch_size: Items per batch.
        numbers: Numbers per item.
    """
    block = max(1, GATHERED // max(batch_size * numbers, 1)) * batch_size
    for start in range(0, n, block):
        yield slice(start, start + block)


def visiting_order(
    n: int, weights: npt.NDArray[np.float64] | None, draw: torch.Generator
) -> Tensor:
    """Rows in the order of an epoch, int64 `[n]`.

    Without weights, or where all are equal, every item is visited once. With weights an item is
    visited `n w / Σ w` times on average, and in every epoch that number rounded down or up
    (systematic sampling, which varies far less than drawing with replacement). An item of weight 2
    thus counts as much as two items of weight 1, whatever the method does with them.

    Args:
        n: How many items, and how many visits.
        weights: One number per item, none negative, not all 0.
        draw: The random generator.

    >>> weights = np.array([2.0, 1.0, 1.0, 0.0])
    >>> sorted(visiting_order(4, weights, torch.Generator().manual_seed(0)).tolist())
    [0, 0, 1, 2]
    """
    order = torch.randperm(n, generator=draw)
    if weights is None or (weights == weights[0]).all():
        return order
    # Lay the items in random order on a line of length n, each as long as its share; marks at
    # distance 1 then hit each item as often as its length says.
    ends = np.cumsum(weights[order.numpy()])
    ends *= n / ends[-1]
    ends[-1] = n
    marks = np.arange(n) + torch.rand(1, generator=draw, dtype=torch.float64).item()
    visits = order[torch.from_numpy(np.searchsorted(ends, marks, side="right"))]
    return visits[torch.randperm(n, generator=draw)]


def label_batches(
    labels: LabelMatrix, order: Tensor, batch_size: int, device: torch.device = CPU
) -> Iterator[Tensor]:
    """Observed labels of the items `order` in batches, float `[B, L]` in {1, 0, -1}.

    Only their sparse entries are copied to the device.
    """
    part = labels.take(order.numpy())
    block = max(1, LABELS_AT_ONCE // (batch_size * part.n_classes)) * batch_size
    for start in range(0, len(part), block):
        stop = min(start + block, len(part))
        entries = slice(int(part.indptr[start]), int(part.indptr[stop]))
        rows = np.repeat(np.arange(stop - start), np.diff(part.indptr[start : stop + 1]))
        places = torch.from_numpy(rows * part.n_classes + part.indices[entries])
        values = torch.from_numpy(part.values[entries].astype(np.float32))
        shape = (stop - start, part.n_classes)
        dense = torch.full(shape, float(part.default), device=device)
        dense.view(-1).index_copy_(0, places.to(device), values.to(device))
        yield from torch.split(dense, batch_size)


def prefetch(items: Iterator[Item], depth: int = PREFETCHED) -> Iterator[Item]:
    """The same items in the same order, up to `depth` of them prepared in a thread.

    An error is raised where its item would have come. The thread ends with the last item, or when
    this generator is closed or collected. The iterator must not draw from torch's global generator,
    which the training step uses at the same time.

    Args:
        items: The iterator; only the thread may use it from now on.
        depth: How many items may wait.

    >>> list(prefetch(iter("abc")))
    ['a', 'b', 'c']
    """
    threads, end = torch.get_num_threads(), object()
    pool = ThreadPoolExecutor(1, THREAD, initializer=torch.set_num_threads, initargs=(1,))
    try:  # in the pool torch has one thread; the model has the others
        waiting = deque(pool.submit(next, items, end) for _ in range(depth))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, items, end))
            yield cast(Item, item)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # the pool also changed the default of new threads
