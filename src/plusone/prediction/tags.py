"""Tags for new items: predictions, some at a time, and the CSV and JSON they are written as."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.feature_store import FeatureStore
from plusone.data.formats.csv_text import SEPARATOR
from plusone.data.images import CROPS, NO_FILE, decode_crops
from plusone.errors import InputError
from plusone.features.extraction import key_of
from plusone.inputs.loader import ArrayInputs, FileInputs
from plusone.io.readers import MAX_PIXELS
from plusone.models.heads import Head
from plusone.parallel.processes import all_gather, all_gather_values, single_process, world
from plusone.prediction.items import Items, Skipped
from plusone.prediction.load import Predictor
from plusone.probabilities.thresholds import Thresholds
from plusone.recipe import Recipe

BATCH = 32  # images decoded and predicted at a time, fewer if they are large
IMAGE_VALUES = 1 << 26  # in the images of a batch: 32 of 836 x 836 pixels
NUMBERS = 1 << 23  # inputs and probabilities held at a time, for other inputs
PREFETCHED = 2  # batches of images decoded while the model predicts
THREADS = 4  # that decode
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how cells begin that spreadsheets run


@dataclass(frozen=True)
class Predictions:
    """Probabilities of every class for some items.

    Args:
        probabilities: `[N, L]`.
        skipped: Items that could not be read.
        paths: Their image files, or () if they have none.
        crops: Log-odds of each crop of an image alone, `[N, V, L]`; None unless asked for.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    probabilities: Tensor
    skipped: tuple[Skipped, ...] = ()
    paths: tuple[Path, ...] = ()
    crops: Tensor | None = None

    def labels(self, row: int, threshold: float | npt.NDArray[np.float64]) -> list[str]:
        """The classes of an item above their thresholds (one, or `[L]`), most likely first."""
        scores = self.probabilities[row].double().numpy()
        above = scores > threshold
        return [self.classes[c] for c in np.argsort(-scores, kind="stable") if above[c]]

    def to_json(self, row: int, threshold: float | npt.NDArray[np.float64]) -> dict[str, Any]:
        """Labels and probabilities of one item as plain values."""
        scores = [round(value, 6) for value in self.probabilities[row].tolist()]
        return {
            "labels": self.labels(row, threshold),
            "probabilities": dict(zip(self.classes, scores, strict=True)),
        }


class Sink(Protocol):
    """Something that predictions are written to."""

    def add(self, predictions: Predictions) -> None:
        """Takes some items."""

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Called once, after the last items, with all that were skipped."""


def predict_all(
    predictor: Predictor,
    arguments: Sequence[Items],
    folder: Path | None = None,
    *,
    apart: bool = False,
) -> Iterator[Predictions]:
    """Predicts items in order, some at a time, so that memory does not grow with their number.

    Images that cannot be decoded are skipped. Where several processes run, each predicts a share
    and all get the whole result; all must call it.

    Args:
        predictor: The model.
        arguments: The items.
        folder: Where the store of features is; features of image files are taken from it, and
            added to it.
        apart: Whether to score each crop of an image file alone, too, if the model is shown
            several.
    """
    apart = apart and predictor.shown.crops != "one"
    for items in arguments:
        if items.skipped:
            empty = torch.zeros(0, len(predictor.classes))
            yield Predictions((), predictor.classes, empty, items.skipped)
        if items.paths:
            batches = _from_files(predictor, items, world(), _Known(predictor, folder, apart))
            yield from _all_gather(predictor, batches, len(items), apart)
        else:
            yield from _from_inputs(predictor, items)


def _all_gather(
    predictor: Predictor, batches: Iterator[Predictions], n: int, apart: bool
) -> Iterator[Predictions]:
    """All-gathers the batches of all processes, which predict them in turn."""
    _, size = world()
    if size == 1:
        yield from batches
        return
    n_crops, n_classes = len(CROPS[predictor.shown.crops]) if apart else 0, len(predictor.classes)
    none = Predictions(
        (), predictor.classes, torch.zeros(0, n_classes), crops=torch.zeros(0, n_crops, n_classes)
    )
    for _ in range(0, n, size * _batch(predictor)):
        with single_process():
            own = next(batches, none)
        gathered: list[Any] = all_gather_values(
            [
                own.ids,
                [str(path) for path in own.paths],
                [(one.id, one.reason) for one in own.skipped],
            ]
        )
        counts = [len(ids) for ids, _, _ in gathered]
        together = own.probabilities[:, None]
        if own.crops is not None:
            together = torch.cat([together, own.crops], dim=1)
        if sum(counts):
            scores = torch.split(all_gather(together, counts), counts)
        else:
            scores = (together,) * size
        for (ids, paths, skipped), part in zip(gathered, scores, strict=True):
            yield Predictions(
                tuple(ids),
                predictor.classes,
                part[:, 0],
                tuple(Skipped(*one) for one in skipped),
                tuple(map(Path, paths)),
                part[:, 1:] if apart else None,
            )


def _from_inputs(predictor: Predictor, items: Items) -> Iterator[Predictions]:
    if items.inputs is None or not len(items):
        return
    rows = max(1, NUMBERS // (int(np.prod(predictor.shape)) + len(predictor.classes)))
    done = 0
    for (view,) in items.inputs.batches(torch.arange(len(items)), rows, ("plain",), 0):
        ids = items.ids[done : done + len(view)]
        yield Predictions(ids, predictor.classes, predictor.probabilities(ArrayInputs(view)))
        done += len(view)


def _from_files(
    predictor: Predictor, items: Items, share: tuple[int, int], known: _Known
) -> Iterator[Predictions]:
    """Predictions of this process's image files; threads decode the next batches meanwhile."""
    (rank, processes), batch = share, _batch(predictor)
    size, shown = predictor.shape[-1], predictor.shown
    starts = deque(range(rank * batch, len(items), processes * batch))
    waiting: deque[tuple[int, list[Future[Tensor | str] | Tensor]]] = deque()
    pool = ThreadPoolExecutor(THREADS)
    try:
        while starts or waiting:
            while starts and len(waiting) < PREFETCHED:
                start = starts.popleft()
                paths = items.paths[start : start + batch]
                features = known.features(paths)
                decoding = [
                    pool.submit(decoded, path, size, shown) if x is None else x
                    for path, x in zip(paths, features, strict=True)
                ]
                waiting.append((start, decoding))
            start, pieces = waiting.popleft()
            inputs = {
                start + row: piece if isinstance(piece, Tensor) else piece.result()
                for row, piece in enumerate(pieces)
            }
            good = {row: x for row, x in inputs.items() if isinstance(x, Tensor)}
            skipped = tuple(
                Skipped(items.ids[row], why) for row, why in inputs.items() if isinstance(why, str)
            )
            kept = items.only([*good])
            scores, crops = known.predicted([*good.values()], kept.paths)
            yield Predictions(kept.ids, predictor.classes, scores, skipped, kept.paths, crops)
    finally:
        pool.shutdown(cancel_futures=True)


def _batch(predictor: Predictor) -> int:
    """How many images are decoded and predicted at a time."""
    crops = len(CROPS[predictor.shown.crops])
    return min(BATCH, max(1, IMAGE_VALUES // (crops * int(np.prod(predictor.shape)))))


class _Known:
    """Predictions of image files from features, which are made once for each photo.

    A model that gives the odds of several crops has none, and maps are too large to be kept.
    Features of several crops are averaged, or kept apart where each is scored alone, too.
    """

    def __init__(self, predictor: Predictor, folder: Path | None, apart: bool) -> None:
        self.predictor, self.apart = predictor, apart
        pooled = predictor.model.head.pooling == Head.pooling
        of_features = predictor.shown.crops == predictor.recipe.crops and pooled
        self.store = None if folder is None or not of_features else FeatureStore(folder)
        self._photos: dict[Path, str] = {}
        shown = predictor.shown
        inputs = FileInputs((), predictor.shape[-1], aspect=shown.aspect, crops=shown.crops)
        space = "" if self.store is None else key_of(predictor.model, inputs)
        self.space = f"{space} apart" if apart else space

    def features(self, paths: Sequence[Path]) -> list[Tensor | None]:
        """The features `[D]` or `[V, D]` of each file, where they are known."""
        if self.store is None:
            return [None] * len(paths)
        photos = self.store.photos(paths)
        self._photos |= {p: photo for p, photo in zip(paths, photos, strict=True) if photo}
        known = self.store.get(self.space, (photo for photo in photos if photo))
        found = [None if photo is None else known.get(photo) for photo in photos]
        return [None if x is None else torch.from_numpy(x.copy()) for x in found]

    def predicted(
        self, inputs: Sequence[Tensor], paths: Sequence[Path]
    ) -> tuple[Tensor, Tensor | None]:
        """Probabilities `[N, L]` of files, from features or decoded images; and of their crops."""
        photos = [self._photos.pop(path, None) for path in paths]
        if not inputs:
            n_crops, n_classes = len(CROPS[self.predictor.shown.crops]), len(self.predictor.classes)
            none = torch.zeros(0, n_classes)
            return none, torch.zeros(0, n_crops, n_classes) if self.apart else None
        if self.store is None:
            images = ArrayInputs(torch.stack([*inputs]))
            if self.apart:
                return self.predictor.of_crops(images)
            return self.predictor.probabilities(images), None
        new = [row for row, x in enumerate(inputs) if x.ndim > 2]
        vectors = [*inputs]
        if new:
            images = ArrayInputs(torch.stack([inputs[row] for row in new]))
            made = self.predictor.features(images, apart=self.apart)
            for row, x in zip(new, made, strict=True):
                vectors[row] = x
            keys = {photos[row]: x.numpy() for row, x in zip(new, made, strict=True)}
            self.store.put(self.space, {key: x for key, x in keys.items() if key is not None})
        features = torch.stack(vectors)
        if self.apart:
            return self.predictor.of_crop_features(features)
        return self.predictor.of_features(features), None


def decoded(
    file: Path | bytes, size: int, shown: Recipe, max_pixels: int = MAX_PIXELS
) -> Tensor | str:
    """An image as the input of a model, `[3, size, size]` or `[V, 3, size, size]`; or a reason.

    `shown` are the settings that inputs are made by.
    """
    try:
        crops = decode_crops(file, size, shown.crops, shown.aspect, max_pixels)
        return crops if len(crops) > 1 else crops[0]
    except InputError as error:
        return str(error).removeprefix(f"{NO_FILE if isinstance(file, bytes) else file}: ")
    except Exception as error:  # broken files fail in many ways
        return f"cannot be read as an image ({type(error).__name__}: {error})"


def for_spreadsheet(text: str) -> str:
    """A cell that no spreadsheet runs as a formula: an apostrophe marks it as text.

    >>> for_spreadsheet("=1+1"), for_spreadsheet("a=b")
    ("'=1+1", 'a=b')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


class CsvTags:
    """One line per item: its name, its labels joined by `|`, then a probability per class.

    Args:
        cell: Changes the text of a cell; by default it is written as it is.
    """

    def __init__(
        self,
        file: TextIO,
        classes: Sequence[str],
        thresholds: Thresholds,
        cell: Callable[[str], str] = str,
    ) -> None:
        if bad := next((name for name in classes if SEPARATOR in name), None):
            raise InputError(
                f"class {bad!r}: {SEPARATOR} separates labels in CSV; use --json without --out"
            )
        self.writer = csv.writer(file, lineterminator="\n")
        self.cuts = thresholds.array
        self.cell = cell
        self.header: list[str] | None = ["image", "labels", *map(cell, classes)]

    def add(self, predictions: Predictions) -> None:
        """Writes some items, with the header before the first."""
        if predictions.ids and self.header is not None:
            self.writer.writerow(self.header)
            self.header = None
        for row, name in enumerate(predictions.ids):
            scores = [f"{value:.4f}" for value in predictions.probabilities[row].tolist()]
            labels = SEPARATOR.join(predictions.labels(row, self.cuts))
            self.writer.writerow([self.cell(name), self.cell(labels), *scores])

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Does nothing: a CSV needs no end."""


class JsonTags:
    """One JSON object on one line, whose items are written one by one."""

    def __init__(
        self,
        file: TextIO,
        classes: Sequence[str],
        thresholds: Thresholds,
        guarantee: Mapping[str, Any] | None = None,
    ) -> None:
        self.file, self.cuts = file, thresholds.array
        header: dict[str, Any] = {"from": thresholds.origin}
        header |= {"thresholds": thresholds.by_name(classes)}
        header |= {} if guarantee is None else {"guarantee": dict(guarantee)}
        self.separator = f'{_text(header)[:-1]}, "items": ['

    def add(self, predictions: Predictions) -> None:
        """Writes some items."""
        for row, name in enumerate(predictions.ids):
            item = {"id": name} | predictions.to_json(row, self.cuts)
            self.file.write(self.separator + _text(item))
            self.separator = ", "

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Closes the object."""
        entries = [{"id": one.id, "reason": one.reason} for one in skipped]
        self.file.write(f'], "skipped": {_text(entries)}}}\n')
        self.file.flush()


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
