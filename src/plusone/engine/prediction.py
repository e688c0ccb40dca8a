"""Predictions for new items, some at a time; images that cannot be read are skipped."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.images import decode
from plusone.engine.build import Predictor
from plusone.engine.inputs import ArrayInputs
from plusone.engine.items import Items, Skipped
from plusone.engine.processes import alone, from_all, gathered, world
from plusone.errors import InputError

IMAGES = 32  # images decoded and predicted at a time
NUMBERS = 1 << 23  # inputs and probabilities held at a time, where images are no files
AHEAD = 2  # batches of images decoded while the model works
THREADS = 4


@dataclass(frozen=True)
class Predictions:
    """Probabilities of every class for some items.

    Args:
        ids: Names of the items, `N` of them.
        classes: Class names, `L` of them.
        probabilities: `[N, L]`.
        skipped: Items that could not be read.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    probabilities: Tensor
    skipped: tuple[Skipped, ...] = ()

    def labels(self, row: int, threshold: float | npt.NDArray[np.float64]) -> list[str]:
        """The classes of one item above their thresholds, most likely first.

        Args:
            row: Which item.
            threshold: One for all classes, or `[L]`.
        """
        scores = self.probabilities[row].double().numpy()
        above = scores > threshold
        return [self.classes[c] for c in np.argsort(-scores, kind="stable") if above[c]]


def predict_all(predictor: Predictor, found: Sequence[Items]) -> Iterator[Predictions]:
    """Predicts items in order, some at a time, so that memory does not grow with their number.

    Where several processes run, each does a share and all get the whole; all must call it.
    """
    for items in found:
        if items.skipped:
            empty = torch.zeros(0, len(predictor.classes))
            yield Predictions((), predictor.classes, empty, items.skipped)
        if items.paths:
            yield from _of_all(predictor, _from_files(predictor, items, world()), len(items))
        else:
            yield from _from_inputs(predictor, items)


def _of_all(predictor: Predictor, mine: Iterator[Predictions], n: int) -> Iterator[Predictions]:
    """The predictions of all processes in order, each having made every so-manieth batch."""
    _, size = world()
    if size == 1:
        yield from mine
        return
    none = Predictions((), predictor.classes, torch.zeros(0, len(predictor.classes)))
    for _ in range(0, n, size * IMAGES):
        with alone():
            own = next(mine, none)
        told: list[Any] = from_all([own.ids, [(one.id, one.reason) for one in own.skipped]])
        counts = [len(ids) for ids, _ in told]
        if sum(counts):
            scores = torch.split(gathered(own.probabilities, counts), counts)
        else:
            scores = (own.probabilities,) * size
        for (ids, skipped), part in zip(told, scores, strict=True):
            bad = tuple(Skipped(*one) for one in skipped)
            yield Predictions(tuple(ids), predictor.classes, part, bad)


def _from_inputs(predictor: Predictor, items: Items) -> Iterator[Predictions]:
    """Predictions of items whose inputs are in memory."""
    if items.inputs is None or not len(items):
        return
    rows = max(1, NUMBERS // (int(np.prod(predictor.shape)) + len(predictor.classes)))
    done = 0
    for (view,) in items.inputs.batches(torch.arange(len(items)), rows, ("plain",), 0):
        ids = items.ids[done : done + len(view)]
        yield Predictions(ids, predictor.classes, predictor.probabilities(ArrayInputs(view)))
        done += len(view)


def _from_files(
    predictor: Predictor, items: Items, share: tuple[int, int]
) -> Iterator[Predictions]:
    """Predictions of this process's image files, the next ones being decoded meanwhile."""
    rank, processes = share
    size, aspect = predictor.shape[-1], predictor.recipe.aspect

    def read(path: Path) -> Tensor | str:
        try:
            return decode(path, size, aspect)
        except InputError as error:
            return str(error).removeprefix(f"{path}: ")
        except Exception as error:  # broken files make decoders fail in many ways
            return f"cannot be read as an image ({type(error).__name__}: {error})"

    starts = deque(range(rank * IMAGES, len(items), processes * IMAGES))
    waiting: deque[tuple[int, list[Future[Tensor | str]]]] = deque()
    pool = ThreadPoolExecutor(THREADS)
    try:
        while starts or waiting:
            while starts and len(waiting) < AHEAD:
                start = starts.popleft()
                paths = items.paths[start : start + IMAGES]
                waiting.append((start, [pool.submit(read, path) for path in paths]))
            start, futures = waiting.popleft()
            ids = items.ids[start : start + IMAGES]
            yield _batch(predictor, ids, [future.result() for future in futures])
    finally:
        pool.shutdown(cancel_futures=True)


def _batch(predictor: Predictor, ids: Sequence[str], read: Sequence[Tensor | str]) -> Predictions:
    """Predictions of what could be read."""
    images = [(name, one) for name, one in zip(ids, read, strict=True) if isinstance(one, Tensor)]
    bad = tuple(
        Skipped(name, one) for name, one in zip(ids, read, strict=True) if isinstance(one, str)
    )
    if images:
        scores = predictor.probabilities(ArrayInputs(torch.stack([image for _, image in images])))
    else:
        scores = torch.zeros(0, len(predictor.classes))
    return Predictions(tuple(name for name, _ in images), predictor.classes, scores, bad)
