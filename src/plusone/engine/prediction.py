"""Predictions for new items, as a table a person can read."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.dataset import Dataset
from plusone.data.features import read_features
from plusone.data.formats.folders import IMAGE_SUFFIXES
from plusone.data.source import EMBEDDED, load_source
from plusone.engine.build import Predictor
from plusone.engine.inputs import ArrayInputs, FileInputs, Inputs
from plusone.engine.task import dataset_inputs, input_shape, same_kind
from plusone.errors import InputError


@dataclass(frozen=True)
class Predictions:
    """Probabilities of every class for every item.

    Args:
        ids: Names of the items, `N` of them.
        classes: Class names, `L` of them.
        probabilities: `[N, L]`.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    probabilities: Tensor

    def labels(self, row: int, threshold: float) -> list[str]:
        """The classes of one item above a probability, most likely first."""
        scores = self.probabilities[row]
        chosen = [c for c in scores.argsort(descending=True).tolist() if scores[c] > threshold]
        return [self.classes[c] for c in chosen]

    def to_dict(self, threshold: float) -> dict[str, Any]:
        """Everything, for machines."""
        items = []
        for row, name in enumerate(self.ids):
            scores = [round(value, 6) for value in self.probabilities[row].tolist()]
            items.append(
                {
                    "id": name,
                    "labels": self.labels(row, threshold),
                    "probabilities": dict(zip(self.classes, scores, strict=True)),
                }
            )
        return {"threshold": threshold, "items": items}


def to_csv(found: Predictions, threshold: float) -> str:
    """One line per item: its name, its labels joined by `|`, then a probability per class."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["image", "labels", *found.classes])
    for row, name in enumerate(found.ids):
        scores = [f"{value:.4f}" for value in found.probabilities[row].tolist()]
        writer.writerow([name, "|".join(found.labels(row, threshold)), *scores])
    return text.getvalue()


def predict_items(
    predictor: Predictor,
    data: str,
    features: Sequence[Path] = (),
    form: str = "auto",
    meaning: str = "auto",
    tick: Callable[[int], None] | None = None,
) -> Predictions:
    """Predicts whatever the user points at.

    A model for images takes an image file, a folder with images anywhere below it, or a data set
    with images. A model for features takes a feature file, or a data set with features.
    """
    ids, inputs = items_of(predictor, data, features, form, meaning)
    if not ids:
        raise InputError(f"{data}: has no items")
    return Predictions(ids, predictor.classes, predictor.probabilities(inputs, tick))


def items_of(
    predictor: Predictor, data: str, features: Sequence[Path], form: str, meaning: str
) -> tuple[tuple[str, ...], Inputs]:
    """Names and inputs of whatever the user points at."""
    path = Path(data)
    if predictor.images and form == "auto" and data not in EMBEDDED:
        files = image_files(path)
        if files:
            root = path if path.is_dir() else path.parent
            names = tuple(file.relative_to(root).as_posix() for file in files)
            recipe, size = predictor.recipe, predictor.shape[-1]
            return names, FileInputs(files, size, workers=recipe.workers, aspect=recipe.aspect)
    if not predictor.images and not features and path.suffix == ".npz" and _has_features_only(path):
        read = read_features([path])
        return tuple(read.ids.tolist()), ArrayInputs(_checked(read.x, predictor, data))
    if predictor.images and not features and path.is_dir() and form == "auto":
        raise InputError(f"{data}: has no images in it")
    if predictor.images and not features and path.suffix == ".npz" and _has_features_only(path):
        raise InputError(f"{data}: holds features, the model takes images")
    dataset: Dataset = load_source(data, features=features, format=form, labels=meaning)
    rows = np.arange(len(dataset.table))
    return tuple(dataset.table.ids.tolist()), inputs_for(predictor, dataset, rows)


def inputs_for(predictor: Predictor, dataset: Dataset, rows: npt.NDArray[np.int64]) -> Inputs:
    """Inputs of some rows of a data set, if they are what the model takes."""
    given = input_shape(dataset, predictor.recipe)
    if not same_kind(given, predictor.shape):
        raise InputError(
            f"{dataset.name}: has {_kind(given)}, the model takes {_kind(predictor.shape)}"
            f"{'' if predictor.images else '; give them with --features FILE'}"
        )
    return dataset_inputs(dataset, predictor.recipe, predictor.shape)(rows)


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


def _has_features_only(path: Path) -> bool:
    try:
        with np.load(path, allow_pickle=False) as file:
            return "x" in file.files and not {"y", "labels"} & set(file.files)
    except (OSError, ValueError):
        return False


def _checked(x: np.ndarray, predictor: Predictor, data: str) -> Tensor:
    if not same_kind(x.shape[1:], predictor.shape):
        raise InputError(
            f"{data}: has {_kind(x.shape[1:])}, the model takes {_kind(predictor.shape)}"
        )
    return torch.from_numpy(x)
