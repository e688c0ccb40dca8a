"""Inputs of a model: arrays in memory, arrays in files, or image files decoded by worker processes.

All give batches in a wanted order, one tensor per wanted view (`plusone.training.loader`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from plusone.data.augment import draw_strong, strong
from plusone.data.images import Aspect, decode
from plusone.data.lazy import LazyArray
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.seeds import generator

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
            # Views that are the same tensor stay one tensor, so that it is forwarded once.
            pieces = {id(part): torch.split(part, batch_size) for part in parts}
            yield from zip(*(pieces[id(part)] for part in parts), strict=True)

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


VIEWS = ("plain", "weak", "strong")


@dataclass(frozen=True)
class View:
    """The chance of one view, drawn for a whole epoch at once.

    An item's part depends on its place in the epoch alone, not on the batch it falls into.

    Args:
        mirrored: Which items are mirrored, bool `[n]`; None if the view never does.
        draws: The chance of the strong view, `[n, ...]`; None for other views.
    """

    mirrored: Tensor | None = None
    draws: Tensor | None = None

    def at(self, places: Tensor) -> View:
        """The chance of some places of the epoch alone."""
        mirrored = None if self.mirrored is None else self.mirrored[places]
        return View(mirrored, None if self.draws is None else self.draws[places])

    def one(self, image: Tensor, place: int) -> Tensor:
        """One image `[C, H, W]`, at a place of the epoch."""
        if self.mirrored is not None and self.mirrored[place]:
            image = image.flip(-1)
        return image if self.draws is None else strong(image, self.draws[place])

    def many(self, images: Tensor, places: slice) -> Tensor:
        """Images `[B, C, H, W]`, at successive places of the epoch."""
        if self.mirrored is not None:
            # Whole rows are copied: choosing byte by byte takes eight times as long.
            rows = torch.arange(len(images)) + len(images) * self.mirrored[places]
            images = torch.cat([images, images.flip(-1)]).index_select(0, rows)
        if self.draws is None:
            return images
        pairs = zip(images, self.draws[places], strict=True)
        return torch.stack([strong(image, draws) for image, draws in pairs])


def own_places(n: int, batch_size: int, share: tuple[int, int]) -> tuple[Tensor, int]:
    """Places of an epoch that one of several processes works on.

    Every batch is divided, so that together the processes see the batches of one.

    Args:
        n: Places of the epoch.
        batch_size: Of all processes together.
        share: The number of the process, and how many there are.

    Returns:
        The places, int64 `[m]`, and how many of them make a batch of this process.

    >>> own_places(7, 5, (0, 2)), own_places(7, 5, (1, 2))
    ((tensor([0, 1, 2, 5]), 3), (tensor([3, 4, 6]), 2))
    """
    rank, size = share
    parts = [part.tensor_split(size)[rank] for part in torch.split(torch.arange(n), batch_size)]
    return torch.cat(parts), max(1, len(torch.arange(batch_size).tensor_split(size)[rank]))


def make_views(names: Sequence[str], n: int, seed: int, *, flip: bool) -> list[View]:
    """Draws the chance of each view for `n` items, refusing names that do not exist."""
    for name in names:
        if name not in VIEWS:
            raise ValueError(f"unknown view {name!r}; known: {', '.join(VIEWS)}")
    return [_view(name, n, _derive(seed, number), flip) for number, name in enumerate(names)]


def _view(name: str, n: int, seed: int, flip: bool) -> View:
    if name == "plain":
        return View()
    mirrored = torch.rand(n, generator=generator(seed, name)) < 0.5 if flip else None
    return View(mirrored, draw_strong(n, seed) if name == "strong" else None)


def _derive(seed: int, number: int) -> int:
    """A seed of its own for each view of a batch, so that two weak views differ."""
    return seed + 7919 * number


def visiting_order(
    n: int, weights: npt.NDArray[np.float64] | None, draw: torch.Generator
) -> Tensor:
    """Rows in the order of an epoch, int64 `[n]`.

    Without weights, or where all are equal, every item is visited once. With weights an item is
    visited in proportion to its own: `n w / Σ w` times on average, and in every epoch that number
    rounded down or up (systematic sampling, which has far less chance in it than drawing with
    replacement). So an item of weight 2 counts as much as two items of weight 1, whatever is done
    with the items later.

    Args:
        n: How many items, and how many visits.
        weights: One number per item, none negative, not all 0.
        draw: The source of chance.

    >>> weights = np.array([2.0, 1.0, 1.0, 0.0])
    >>> sorted(visiting_order(4, weights, torch.Generator().manual_seed(0)).tolist())
    [0, 0, 1, 2]
    """
    order = torch.randperm(n, generator=draw)
    if weights is None or (weights == weights[0]).all():
        return order
    # The items lie one after the other, in random order, on a line of length n; an item's piece
    # is as long as its share. Marks at distance 1 hit each piece as often as it is long.
    ends = np.cumsum(weights[order.numpy()])
    ends *= n / ends[-1]
    ends[-1] = n
    marks = np.arange(n) + torch.rand(1, generator=draw, dtype=torch.float64).item()
    visits = order[torch.from_numpy(np.searchsorted(ends, marks, side="right"))]
    return visits[torch.randperm(n, generator=draw)]


LABEL_BLOCK = 1 << 18  # labels that are made dense at once, unless one batch has more


def label_batches(labels: LabelMatrix, order: Tensor, batch_size: int) -> Iterator[Tensor]:
    """Labels of the items `order`, batch by batch, float `[B, L]` in {1, 0, -1}."""
    part = labels.take(order.numpy())
    block = max(1, LABEL_BLOCK // (batch_size * part.n_classes)) * batch_size
    for start in range(0, len(part), block):
        yield from torch.split(_dense(part, start, min(start + block, len(part))), batch_size)


def _dense(labels: LabelMatrix, start: int, stop: int) -> Tensor:
    """Rows `start:stop` as floats `[stop - start, L]`."""
    entries = slice(int(labels.indptr[start]), int(labels.indptr[stop]))
    rows = np.repeat(np.arange(stop - start), np.diff(labels.indptr[start : stop + 1]))
    dense = np.full((stop - start, labels.n_classes), labels.default, dtype=np.float32)
    dense[rows, labels.indices[entries]] = labels.values[entries]
    return torch.from_numpy(dense)


Item = TypeVar("Item")
DEPTH = 2


def ahead(items: Iterator[Item], depth: int = DEPTH) -> Iterator[Item]:
    """The same items in the same order, up to `depth` of them made before they are asked for.

    An error comes up where the item would have. The thread ends with the last item, or when this
    generator is closed or forgotten. What makes the items must not draw from torch's global
    generator, which the training step uses at the same time.

    Args:
        items: What makes them; used by the thread alone from now on.
        depth: How many are kept waiting at most.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    line, threads = _Line(items, depth), torch.get_num_threads()
    thread = Thread(target=line.work, name="plusone-ahead", daemon=True)
    thread.start()
    try:
        while (found := line.take()) is not None:
            yield found[0]
    finally:
        line.close()
        thread.join()
        torch.set_num_threads(threads)  # `work` also changed what new threads begin with


class _Line(Generic[Item]):
    """A queue that is filled only as far as there are permits."""

    def __init__(self, items: Iterator[Item], depth: int) -> None:
        self.items, self.closed = items, False
        self.permits = Semaphore(depth)
        self.made: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()

    def work(self) -> None:
        """Makes items until there are none or the line is closed."""
        torch.set_num_threads(1)  # of this thread; the model has the others
        try:
            while self._may_go_on():
                try:
                    self.made.put((next(self.items),))
                except StopIteration:
                    break
            self.made.put(None)
        except BaseException as error:  # it is raised where the item was wanted
            self.made.put(error)

    def take(self) -> tuple[Item] | None:
        """The next item; None after the last."""
        found = self.made.get()
        if isinstance(found, BaseException):
            raise found
        self.permits.release()
        return found

    def close(self) -> None:
        """Lets the thread end, whatever it waits for."""
        self.closed = True
        self.permits.release()

    def _may_go_on(self) -> bool:
        self.permits.acquire()
        return not self.closed
