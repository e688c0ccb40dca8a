"""Worker processes that decode and augment image files, kept from one pass to the next.

A `Request` has everything that one item of a batch needs: its file, its size and the random numbers
of its views. Workers therefore know nothing of epochs, seeds and splits, and one set of them serves
all passes over training, validation and test items.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from plusone.data.images import Aspect, Crops, decode_crops
from plusone.device import resolve
from plusone.errors import InputError
from plusone.inputs._views import ItemView
from plusone.parallel.environment import children_import_nothing_from_here

Count = int | Literal["auto"]
PREFETCHED = 2  # batches that each worker prepares in advance
MOST = {"cpu": 4, "accelerator": 16}  # workers by default; a model on the CPU is the slower part

# Begins a pass: one list for each batch.
Requests = Callable[[], Iterator[list["Request"]]]

# What a batch raises on its way from a worker that was killed.
LOST = (ConnectionError, EOFError, FileNotFoundError)


class Request(NamedTuple):
    """One item of a batch.

    Args:
        path: The image file.
        size: Side of the result.
        aspect: How the image becomes square, as for `plusone.data.images.decode`.
        crops: Which crops of it.
        views: Its views.
    """

    path: Path
    size: int
    aspect: Aspect
    crops: Crops
    views: tuple[ItemView, ...]

    def images(self) -> tuple[Tensor, ...]:
        """Each view in bytes, `[3, size, size]`, or several crops `[V, 3, size, size]` for each."""
        crops = decode_crops(self.path, self.size, self.crops, self.aspect)
        if self.crops != "one":
            return (crops,) * len(self.views)
        return tuple(view.of_image(crops[0]) for view in self.views)


class ImageWorkers:
    """Processes that decode images.

    They start with the first pass and wait between passes. A pass that begins while another is
    open has workers of its own: so has the evaluation after an epoch, while those of the training
    begin the next one. They end with `close`, or when this object is collected; a later pass starts
    new ones.

    Args:
        count: How many; 0 decodes in this process, and "auto" goes by the machine, see
            `automatic_count`.
        device: What the model computes on. For CUDA, batches are in pinned memory, which is copied
            while the device computes.
    """

    def __init__(self, count: Count = 0, device: str | torch.device = "cpu") -> None:
        try:
            kind = resolve(device).type
        except InputError:  # for whoever computes on it to say
            kind = "cpu"
        self.count = automatic_count(kind != "cpu") if count == "auto" else count
        self.pin = kind == "cuda"
        self._loaders: list[_Loader] = []
        # When torch's loader is collected as part of a reference cycle, it waits 10 s for its
        # workers. The finalizer keeps the loaders out of such cycles and ends them.
        weakref.finalize(self, _close, self._loaders).atexit = False  # torch does that

    def batches(self, requests: Requests) -> Iterator[tuple[Tensor, ...]]:
        """One batch for each list of requests, in order: a `[B, ...]` tensor per view.

        The workers begin at once, with a few batches, whether or not the first is asked for.

        Args:
            requests: Begins the pass; it is read a few batches in advance.

        Raises:
            InputError: An image cannot be decoded.
            RuntimeError: A worker was killed; torch raises it wherever this process is.
        """
        batches = self._batches(requests)
        next(batches)
        return batches

    def _batches(self, requests: Requests) -> Iterator[tuple[Tensor, ...]]:
        """The batches of a pass, after an empty one with which the workers have begun."""
        loader = next((one for one in self._loaders if one.idle), None)
        if loader is None:  # the first pass, or one inside another
            loader = _Loader(self.count, self.pin)
            self._loaders.append(loader)
        try:
            begun = loader.batches(requests)
            yield next(begun)
            if loader.closed:  # before the first batch was asked for
                begun = self.batches(requests)
            yield from begun
        except (Exception, KeyboardInterrupt) as error:
            raise error.with_traceback(None) from None  # its frames would keep the workers alive

    def close(self) -> None:
        """Ends the processes."""
        _close(self._loaders)


def _close(loaders: list[_Loader]) -> None:
    while loaders:
        loaders.pop().close()


class _Loader:
    """A `DataLoader` with persistent workers, whose batches change from pass to pass."""

    def __init__(self, count: int, pin: bool) -> None:
        self._sampler = _Sampler()
        self._loader: DataLoader[tuple[Tensor, ...] | InputError] | None = DataLoader(
            _Decoding(),
            batch_sampler=self._sampler,
            num_workers=count,
            collate_fn=_collate,
            pin_memory=pin,
            worker_init_fn=_one_thread,
            generator=torch.Generator(),  # torch's global one belongs to the training
            prefetch_factor=PREFETCHED if count else None,
            persistent_workers=count > 0,
        )
        self._batches: Iterator[list[Tensor] | InputError] = iter(())

    @property
    def idle(self) -> bool:
        """Whether a pass may begin; never after an error such as the death of a worker."""
        return self._sampler.requests is None

    @property
    def closed(self) -> bool:
        """Whether its workers have ended."""
        return self._loader is None

    def batches(self, requests: Requests) -> Iterator[tuple[Tensor, ...]]:
        """The batches of one pass, after an empty one with which the workers have begun."""
        assert self._loader is not None
        self._sampler.requests = requests
        with children_import_nothing_from_here():  # where processes are not forked
            self._batches = iter(self._loader)  # not in this frame, which may outlive `close`
        try:
            yield ()
            while (batch := next(self._batches, None)) is not None:
                if isinstance(batch, InputError):
                    raise batch
                yield tuple(batch)
            if self.closed:
                raise RuntimeError("the workers were closed before the last batch of a pass")
            self._sampler.requests = None
        except (GeneratorExit, InputError):
            self._sampler.requests = None  # the next pass skips what workers have prepared
            raise
        except LOST as error:  # before torch notices
            raise RuntimeError(f"DataLoader worker exited unexpectedly ({error})") from None

    def close(self) -> None:
        """Ends the workers: they go with the last reference to torch's loader."""
        self._batches, self._loader = iter(()), None


@dataclass
class _Sampler:
    """The batch sampler of a loader: the requests of the current pass, if there is one."""

    requests: Requests | None = None

    def __iter__(self) -> Iterator[list[Request]]:
        return iter(()) if self.requests is None else self.requests()


class _Decoding(Dataset[tuple[Tensor, ...] | InputError]):
    """The views of requested images; errors are given, not raised, to keep their message."""

    def __getitem__(self, request: Request) -> tuple[Tensor, ...] | InputError:
        try:
            return request.images()
        except InputError as error:
            return error


def _collate(items: list[tuple[Tensor, ...] | InputError]) -> list[Tensor] | InputError:
    """The first error if there is one, or one tensor per view, in shared memory if in a worker."""
    for item in items:
        if isinstance(item, InputError):
            return item
    stacked: list[Tensor] = default_collate(items)
    return stacked


def _one_thread(worker: int) -> None:
    """One thread per worker: the workers share the cores."""
    torch.set_num_threads(1)


def automatic_count(on_accelerator: bool) -> int:
    """Workers by the cores that this process may use, without the one that drives the model.

    Args:
        on_accelerator: Whether the model runs on an accelerator, which needs images faster.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    cores //= int(os.environ.get("LOCAL_WORLD_SIZE") or 1)  # processes that torchrun started here
    most = MOST["accelerator" if on_accelerator else "cpu"]
    return max(1 if on_accelerator else 0, min(cores - 1, most))
