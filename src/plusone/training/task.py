"""`Task`: a data set made ready for training: split, observed, with inputs for each part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.dataset import Dataset
from plusone.data.images import cached_images, decode_all
from plusone.data.lazy import LARGE, LazyArray, rows_of
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe_table
from plusone.data.table import LabelTable, Strings, hold_out_validation
from plusone.errors import InputError
from plusone.methods import get_method
from plusone.models.backbones import backbone_for
from plusone.parallel.processes import main_process_first
from plusone.recipe import Recipe
from plusone.seeds import derive
from plusone.training.loader import ArrayInputs, FileInputs, Inputs, MappedInputs
from plusone.training.predict import ROWS


@dataclass(frozen=True)
class Part:
    """One split: inputs, what was seen of its labels, and all of them where they are known.

    Items with weights are visited in proportion to them, see `plusone.training.loader`. Where these
    are a sample of a larger split, `of` is how many it has.
    """

    ids: Strings
    inputs: Inputs
    observed: LabelMatrix
    truth: LabelMatrix | None
    weights: npt.NDArray[np.float64] | None = None
    of: int | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Task:
    """Everything a training run needs of its data.

    Args:
        name: Name of the data set.
        classes: Class names.
        train: What is learned from.
        val: What the best epoch is chosen on; of very many items a sample (`engine.sampling`).
        test: What the result is reported on; None if the data has no test split.
        images: Whether inputs are images (else feature vectors).
        shape: Shape of one input.
        observation: Scheme, seed and digest of the seen labels.
    """

    name: str
    classes: tuple[str, ...]
    train: Part
    val: Part
    test: Part | None
    images: bool
    shape: tuple[int, ...]
    observation: Mapping[str, object]


def make_task(dataset: Dataset, recipe: Recipe, tick: Callable[[], None] | None = None) -> Task:
    """Observes, splits and loads a data set as the recipe says.

    Args:
        dataset: The data.
        recipe: The settings.
        tick: Called once per decoded image.
    """
    table = split_and_observe(dataset.table, recipe)
    shape = input_shape(dataset, recipe)
    make_inputs = dataset_inputs(dataset, recipe, shape, tick, cache_dir=recipe.cache_dir)

    def part(split: str) -> Part:
        rows, of = table.rows_of(split), None
        if split == "val" and (some := sample(len(rows), len(table.classes), JUDGED)) is not None:
            rows, of = rows[some], len(rows)
        taken = table.take(rows)
        return Part(taken.ids, make_inputs(rows), taken.labels, taken.truth, of=of)

    for split in ("train", "val"):
        if not len(table.rows_of(split)):
            raise InputError(
                f"{dataset.name}: no items are left for the {split} split; give more items, or "
                "another share of them to validation (--set val_share=0.5)"
            )
    return Task(
        name=dataset.name,
        classes=table.classes,
        train=part("train"),
        val=part("val"),
        test=part("test") if len(table.rows_of("test")) else None,
        images=len(shape) == 3,
        shape=shape,
        observation=dict(table.observation) or {"scheme": "given", "digest": table.labels.digest()},
    )


def split_and_observe(table: LabelTable, recipe: Recipe) -> LabelTable:
    """The same items with the labels training may see, validation items held out.

    Training items that `train_share` leaves out are in the split "unused".
    """
    table = apply_observation(table, recipe)
    table = hold_out_validation(table, share=recipe.val_share, seed=recipe.split_seed)
    if recipe.train_share == 1:
        return table
    assert table.split is not None  # it has held-out items
    rows, split = table.rows_of("train"), table.split.astype("<U6")
    split[rows] = "unused"
    split[some_of(rows, recipe.train_share, recipe.split_seed)] = "train"
    return replace(table, split=split)


def seen_labels(table: LabelTable, recipe: Recipe) -> int:
    """How many labels training sees, positive and negative."""
    table = split_and_observe(table, recipe)
    labels = table.labels.take(table.rows_of("train"))
    return int(labels.per_class(1).sum() + labels.per_class(-1).sum())


def some_of(rows: npt.NDArray[np.int64], share: float, seed: int) -> npt.NDArray[np.int64]:
    """A random share of the rows, ascending, at least one; a smaller share is part of a larger.

    >>> rows = np.arange(10)
    >>> some_of(rows, 0.2, 0).tolist(), some_of(rows, 0.4, 0).tolist()
    ([4, 6], [2, 4, 6, 7])
    """
    order = np.random.default_rng(seed).permutation(len(rows))
    return np.sort(rows[order[: max(1, round(share * len(rows)))]])


def apply_observation(table: LabelTable, recipe: Recipe) -> LabelTable:
    """The labels training may see.

    `observe="auto"` hides labels only where all are known: a complete table gets the scheme the
    method is meant for; a table that already holds partial labels keeps them, except for the
    reference methods that are defined by seeing more (`bce`, `iun`, `iu`).
    """
    scheme = recipe.observe
    if scheme == "auto":
        wanted = get_method(recipe.method).scheme
        partial = not table.is_complete and wanted == "single"
        scheme = "given" if table.truth is None or partial else wanted
        if scheme == "given" and wanted != "single" and not table.labels.per_class(-1).any():
            raise InputError(
                f"the method {recipe.method} learns from seen negatives, and this data has none; "
                "choose another method, for example gr"
            )
    if scheme == "given":
        return table
    return observe_table(table, scheme, recipe.observe_seed)


def input_shape(dataset: Dataset, recipe: Recipe) -> tuple[int, ...]:
    """Shape of one input: of a feature vector, of an image in memory, or of a resized file."""
    if dataset.features is not None:
        return tuple(dataset.features.shape[1:])
    if dataset.table.root is None:
        raise InputError(
            f"{dataset.name}: there are neither image files nor features for these labels; "
            "give the features with --features FILE"
        )
    size = recipe.image_size or backbone_for(recipe.backbone).size
    return (3, size, size)


def same_kind(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether inputs of one shape suit a model for another: channels, or features, must agree."""
    if len(given) != len(wanted):
        return False
    return given[0] == wanted[0] if len(given) == 3 else given[-1] == wanted[-1]


def dataset_inputs(
    dataset: Dataset,
    recipe: Recipe,
    shape: tuple[int, ...],
    tick: Callable[[], None] | None = None,
    *,
    cache_dir: str | None = None,
) -> Callable[[npt.NDArray[np.int64]], Inputs]:
    """A function from row numbers to inputs of the given shape.

    Args:
        dataset: The data.
        recipe: The settings.
        shape: Shape of one input.
        tick: Called once per decoded image.
        cache_dir: Folder to keep decoded images in. Training passes the recipe's; whoever uses a
            trained model elsewhere need not have that folder.
    """
    table = dataset.table
    if not same_kind(input_shape(dataset, recipe), shape):
        raise InputError(f"{dataset.name}: its inputs do not have the expected shape {shape}")
    if dataset.features is not None:
        return _array_inputs(dataset.features, flip=recipe.flip)
    size = shape[-1]

    def from_files(rows: npt.NDArray[np.int64]) -> Inputs:
        paths, aspect = tuple(table.path(row) for row in rows), recipe.aspect
        small = len(table) * 3 * size * size <= recipe.cache_mb * 1_000_000
        if cache_dir is not None:
            with main_process_first():
                mapped = cached_images(paths, size, Path(cache_dir), tick, aspect)
            return ArrayInputs(mapped.clone() if small else mapped, flip=recipe.flip)
        if small:
            return ArrayInputs(decode_all(paths, size, tick, aspect), flip=recipe.flip)
        return FileInputs(paths, size, recipe.flip, recipe.workers, aspect)

    return from_files


def _array_inputs(
    x: npt.NDArray[Any] | LazyArray, *, flip: bool
) -> Callable[[npt.NDArray[np.int64]], Inputs]:
    """A function from row numbers to inputs: copied into memory, unless they are large features."""
    if x.ndim != 4 and x.nbytes >= LARGE:
        return lambda rows: MappedInputs(rows_of(x, rows))

    def in_memory(rows: npt.NDArray[np.int64]) -> Inputs:
        taken = torch.from_numpy(np.ascontiguousarray(x[rows]))
        if taken.dtype == torch.float16:
            taken = taken.float()  # converting once beats converting every batch, while it fits
        return ArrayInputs(taken, flip=flip and x.ndim == 4)

    return in_memory


JUDGED = 1 << 26  # validation labels, looked at after every epoch
RECOVERED = 1 << 25  # training labels, looked at when a training ends
TESTED = 1 << 28  # test labels, looked at when a training ends or a run is evaluated
LEAST = 1000  # items a sample has at least


def sample(n_items: int, n_classes: int, most: int) -> npt.NDArray[np.int64] | None:
    """Rows to look at, ascending; None where all of them are.

    Args:
        n_items: How many items there are.
        n_classes: How many classes.
        most: How many labels may be looked at.

    >>> sample(5000, 10, 1 << 20) is None, sample(5000, 1000, 2_000_000).size
    (True, 2000)
    """
    size = max(most // max(n_classes, 1), LEAST)
    if n_items <= size:
        return None
    draw = np.random.default_rng(derive(0, "sample", n_items))
    return np.sort(draw.choice(n_items, size, replace=False))


def blockwise(rows: Tensor, n_classes: int, predict: Callable[[Tensor], Tensor]) -> Tensor:
    """Probabilities of many rows, some at a time: nothing large is held twice.

    Args:
        rows: Which, int64 `[n]`.
        n_classes: `L`.
        predict: Gives the probabilities `[b, L]` of some of them.

    Returns:
        `[n, L]`.
    """
    step = ROWS["features"]
    if len(rows) <= step:
        return predict(rows)
    out = torch.empty(len(rows), n_classes)
    for start in range(0, len(rows), step):
        out[start : start + step] = predict(rows[start : start + step])
    return out
