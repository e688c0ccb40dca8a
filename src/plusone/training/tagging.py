"""Predictions for new items, some at a time; images that cannot be read are skipped."""

from __future__ import annotations

import csv
import glob
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.checks import id_fault
from plusone.data.dataset import Dataset
from plusone.data.features import read_features
from plusone.data.formats.csv_text import SEPARATOR, id_column, records, sidecar_root
from plusone.data.images import IMAGE_SUFFIXES, decode
from plusone.data.lazy import rows_of
from plusone.data.source import EMBEDDED, load_source
from plusone.errors import InputError, Problems
from plusone.parallel.processes import all_gather, all_gather_values, single_process, world
from plusone.training.build import Predictor
from plusone.training.loader import ArrayInputs, FileInputs, Inputs, MappedInputs
from plusone.training.task import dataset_inputs, input_shape, same_kind
from plusone.training.thresholds import Thresholds, as_dict


@dataclass(frozen=True)
class Skipped:
    """An item that could not be predicted, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Items:
    """Items that belong together.

    Args:
        ids: Their names.
        paths: Their image files, or () if there are `inputs`.
        inputs: Their inputs, if they are not image files.
        skipped: What was named but is no item.
    """

    ids: tuple[str, ...]
    paths: tuple[Path, ...] = ()
    inputs: Inputs | None = None
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


def find_items(
    predictor: Predictor,
    arguments: Sequence[str],
    features: Sequence[Path] = (),
    form: str = "auto",
    meaning: str = "auto",
) -> list[Items]:
    """Everything the arguments name.

    A model for images takes image files, folders with images anywhere below them, patterns such as
    `photos/**/*.jpg`, a CSV with a column `image` (paths below the folder of its images, as
    `data.formats` finds it), or a data set with images. A model for features takes feature files,
    or data sets with features.

    One folder or file is left out of the names of its items; of several each is a part of them.

    Raises:
        InputError: If an argument names nothing that the model can take.
    """
    plain = predictor.images and form == "auto" and not features
    found: list[Items] = []
    known: set[str] = set()
    for argument in arguments:
        items = _images(argument, alone=len(arguments) == 1) if plain else None
        if items is None:
            items = _others(predictor, argument, features, form, meaning)
        elif items.ids and predictor.shape[0] != 3:
            raise InputError(
                f"{argument}: has {_kind((3,) * 3)}, the model takes {_kind(predictor.shape)}"
            )
        found.append(_new(items, known))
        if not items.ids and not items.skipped:
            raise InputError(f"{argument}: has no items")
    return found


def items_of(
    predictor: Predictor, data: str, features: Sequence[Path], form: str, meaning: str
) -> tuple[tuple[str, ...], Inputs]:
    """Names and inputs of all items of one argument, as `find_items` finds them."""
    (items,) = find_items(predictor, [data], features, form, meaning)
    if items.inputs is not None:
        return items.ids, items.inputs
    recipe, size = predictor.recipe, predictor.shape[-1]
    return items.ids, FileInputs(items.paths, size, workers=recipe.workers, aspect=recipe.aspect)


def _new(items: Items, known: set[str]) -> Items:
    """The image files that were not named before; `known` learns of them."""
    if not items.paths:
        return items
    kept: list[tuple[str, Path]] = []
    for name, path in zip(items.ids, items.paths, strict=True):
        if (place := os.path.abspath(path)) not in known:
            known.add(place)
            kept.append((name, path))
    return Items(
        tuple(name for name, _ in kept), tuple(path for _, path in kept), None, items.skipped
    )


def _images(argument: str, *, alone: bool) -> Items | None:
    """Image files, if the argument names such; None if it must be something else."""
    if argument in EMBEDDED:
        return None
    path = Path(argument)
    if not os.path.exists(argument):
        return _matching(argument) if glob.has_magic(argument) else None
    if path.is_dir():
        files = image_files(path)
        if not files:
            raise InputError(f"{argument}: has no images in it")
        return Items(_names(files, path if alone else None), files)
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return Items(_names((path,), path.parent if alone else None), (path,))
    return _listed(path, alone=alone) if path.suffix.lower() == ".csv" else None


def _matching(pattern: str) -> Items:
    """The images that a pattern matches, and those below folders that it matches."""
    matches = sorted(glob.glob(pattern, recursive=True))
    if not matches:
        raise InputError(f"{pattern}: no file matches")
    files: list[Path] = []
    other: list[Skipped] = []
    for path in map(Path, matches):
        inside = image_files(path)
        files += inside
        if not inside and path.is_file():
            other.append(Skipped(path.as_posix(), "is not an image file by its name"))
    return Items(_names(files, None), tuple(files), None, tuple(other))


def _listed(path: Path, *, alone: bool) -> Items:
    """The images that the id column of a CSV file names, below the folder of its images."""
    problems = Problems(path)
    ids: list[str] = []
    bad: list[Skipped] = []
    for name in _id_cells(path, problems):
        if fault := id_fault(name):
            bad.append(Skipped(name, fault))
        else:
            ids.append(name)
    problems.raise_if_any()
    root = sidecar_root(np.array(ids, dtype=np.str_), path)
    files = tuple(root / name for name in ids)
    return Items(tuple(ids) if alone else _names(files, None), files, None, tuple(bad))


def _id_cells(path: Path, problems: Problems) -> Iterator[str]:
    rows = records(path, problems)
    header = next(rows, None)
    if header is None:
        problems.raise_if_any()
        raise InputError(f"{path}: is empty")
    place = id_column([cell.strip() for cell in header[1]], path)
    for _, cells in rows:
        yield cells[place].strip()


def _others(
    predictor: Predictor, argument: str, features: Sequence[Path], form: str, meaning: str
) -> Items:
    """Feature files and data sets."""
    path = Path(argument)
    if not predictor.images and not features and image_files(path):
        raise InputError(
            f"{argument}: has {_kind((3,) * 3)}, the model takes {_kind(predictor.shape)}; "
            "plusone features extracts them, with the backbone of the training data"
        )
    bare = not features and _has_features_only(path)
    if bare and predictor.images:
        raise InputError(f"{argument}: holds features, the model takes images")
    if bare:
        read = read_features([path])
        _check_shape(read.x.shape[1:], predictor, path)
        rows = np.arange(len(read.ids))
        return Items(tuple(read.ids.tolist()), (), MappedInputs(rows_of(read.x, rows)))
    # Image files are not looked at here: prediction passes over those that cannot be decoded.
    dataset = load_source(
        argument, features=features, format=form, labels=meaning, check_images=False
    )
    table = dataset.table
    ids, count = tuple(table.ids.tolist()), len(table)
    if dataset.features is None and table.root is not None:
        _check_kind(predictor, dataset)
        return Items(ids, tuple(table.path(row) for row in range(count)))
    left_out = tuple(Skipped(one.id, one.reason) for one in dataset.broken)
    return Items(ids, (), inputs_for(predictor, dataset, np.arange(count)), left_out)


def inputs_for(predictor: Predictor, dataset: Dataset, rows: npt.NDArray[np.int64]) -> Inputs:
    """Inputs of some rows of a data set, if they are what the model takes."""
    _check_kind(predictor, dataset)
    return dataset_inputs(dataset, predictor.recipe, predictor.shape)(rows)


def _check_kind(predictor: Predictor, dataset: Dataset) -> None:
    """Refuses data of which the model can make nothing."""
    given = input_shape(dataset, predictor.recipe)
    if not same_kind(given, predictor.shape):
        raise InputError(
            f"{dataset.name}: has {_kind(given)}, the model takes {_kind(predictor.shape)}"
            f"{'' if predictor.images else '; give them with --features FILE'}"
        )


def _kind(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"{shape[0]} features per item"
    if len(shape) == 2:
        return f"tokens of {shape[1]} features"
    return f"images with {shape[0]} channel{'' if shape[0] == 1 else 's'}"


def image_files(path: Path) -> tuple[Path, ...]:
    """The image files at or below a path, sorted; none if it is something else."""
    if path.is_dir():
        found = (file for file in path.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
        return tuple(sorted(file for file in found if file.is_file()))
    return (path,) if path.is_file() and path.suffix.lower() in IMAGE_SUFFIXES else ()


def _names(files: Iterable[Path], root: Path | None) -> tuple[str, ...]:
    """Names of files: as they are, or below a folder."""
    return tuple((file if root is None else file.relative_to(root)).as_posix() for file in files)


def _has_features_only(path: Path) -> bool:
    if path.suffix != ".npz":
        return path.suffix == ".npy"
    try:
        with np.load(path, allow_pickle=False) as file:
            return "x" in file.files and not {"y", "labels"} & set(file.files)
    except Exception:  # zip files can be damaged in many ways; whoever reads it says which
        return False


def _check_shape(shape: tuple[int, ...], predictor: Predictor, path: Path) -> None:
    if not same_kind(shape, predictor.shape):
        raise InputError(f"{path}: has {_kind(shape)}, the model takes {_kind(predictor.shape)}")


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
        with single_process():
            own = next(mine, none)
        told: list[Any] = all_gather_values(
            [own.ids, [(one.id, one.reason) for one in own.skipped]]
        )
        counts = [len(ids) for ids, _ in told]
        if sum(counts):
            scores = torch.split(all_gather(own.probabilities, counts), counts)
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


class CsvTags:
    """One line per item: its name, its labels joined by `|`, then a probability per class.

    Args:
        file: Where to write.
        classes: Class names.
        thresholds: What counts as a label.
    """

    def __init__(self, file: TextIO, classes: Sequence[str], thresholds: Thresholds) -> None:
        if odd := next((name for name in classes if SEPARATOR in name), None):
            raise InputError(
                f"class {odd!r}: {SEPARATOR} separates labels in CSV; use --json without --out"
            )
        self.writer = csv.writer(file, lineterminator="\n")
        self.cuts = thresholds.array
        self.header: list[str] | None = ["image", "labels", *classes]

    def add(self, found: Predictions) -> None:
        """Writes some items; the header first, once there is an item."""
        if found.ids and self.header is not None:
            self.writer.writerow(self.header)
            self.header = None
        for row, name in enumerate(found.ids):
            scores = [f"{value:.4f}" for value in found.probabilities[row].tolist()]
            self.writer.writerow([name, SEPARATOR.join(found.labels(row, self.cuts)), *scores])

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Nothing is left to write."""


class JsonTags:
    """One JSON object on one line, its items written as they come.

    Args:
        file: Where to write.
        classes: Class names.
        thresholds: What counts as a label.
    """

    def __init__(self, file: TextIO, classes: Sequence[str], thresholds: Thresholds) -> None:
        self.file, self.cuts = file, thresholds.array
        about = {"from": thresholds.origin, "thresholds": as_dict(classes, thresholds)}
        self.before = f'{_text(about)[:-1]}, "items": ['

    def add(self, found: Predictions) -> None:
        """Writes some items."""
        for row, name in enumerate(found.ids):
            scores = [round(value, 6) for value in found.probabilities[row].tolist()]
            item = {
                "id": name,
                "labels": found.labels(row, self.cuts),
                "probabilities": dict(zip(found.classes, scores, strict=True)),
            }
            self.file.write(self.before + _text(item))
            self.before = ", "

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Closes the object."""
        listed = [{"id": one.id, "reason": one.reason} for one in skipped]
        self.file.write(f'], "skipped": {_text(listed)}}}\n')
        self.file.flush()


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
