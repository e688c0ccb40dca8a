"""`Task`: a data set prepared for training: observed, split, with the inputs of each split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.build import Plan
from plusone.data.dataset import Dataset
from plusone.data.groups import group_numbers, random_items
from plusone.data.hierarchy import Hierarchy
from plusone.data.images import cached_images, decode_all
from plusone.data.lazy import LARGE, rows_of
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe_table
from plusone.data.table import LabelTable, Strings, hold_out_validation
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs, FileInputs, Inputs, MappedInputs
from plusone.inputs.sampling import VALIDATION_LABELS, sample
from plusone.inputs.workers import ImageWorkers
from plusone.methods import get_method
from plusone.models.backbones import backbone_for
from plusone.parallel.processes import main_process_first
from plusone.recipe import Recipe

HINT_LENGTH = 0.5  # of appended hints, over the length of the feature vector


@dataclass(frozen=True)
class Part:
    """One split of the data.

    Args:
        ids: Names of the items.
        inputs: Their inputs.
        observed: Their observed labels `[N, L]`.
        truth: All their labels, where they are known.
        weights: How often each is visited in training, see `plusone.inputs.loader`.
        of: Size of the whole split, if this is a sample of it.
        groups: The group of each, where items belong together.
        hints: Scores from elsewhere, float32 `[N, L]`, where the data has them.
        named: Which observed positives were named, where the others are answers.
    """

    ids: Strings
    inputs: Inputs
    observed: LabelMatrix
    truth: LabelMatrix | None
    weights: npt.NDArray[np.float64] | None = None
    of: int | None = None
    groups: Strings | None = None
    hints: npt.NDArray[np.float32] | None = None
    named: LabelMatrix | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Task:
    """The data of a run.

    Args:
        name: Name of the data set.
        classes: Class names.
        train: The training items.
        val: The validation items, which choose the best epoch; a sample if they are very many.
        test: The test items; None if the data has no test split.
        images: Whether inputs are images (else feature vectors).
        shape: Shape of one input.
        observation: Scheme, seed and digest of the observed labels.
        workers: The processes that decode images which are not in memory.
        made_by: What made the features, as far as their file says.
        hierarchy: Which class lies below which.
    """

    name: str
    classes: tuple[str, ...]
    train: Part
    val: Part
    test: Part | None
    images: bool
    shape: tuple[int, ...]
    observation: Mapping[str, object]
    workers: ImageWorkers = field(default_factory=ImageWorkers)
    made_by: Mapping[str, object] = field(default_factory=dict)
    hierarchy: Hierarchy | None = None


def numbered_groups(parts: Sequence[Part]) -> Tensor | None:
    """Number of the group of each item of the parts, int64 `[n]`; None without groups."""
    names = [part.groups for part in parts if part.groups is not None]
    if len(names) < len(parts):
        return None
    return torch.from_numpy(group_numbers(np.concatenate(names)))


def named_of(parts: Sequence[Part]) -> LabelMatrix | None:
    """Which observed positives of the parts were named; None if all of them were."""
    if all(part.named is None for part in parts):
        return None
    return LabelMatrix.concatenate(
        [part.observed.only_positives() if part.named is None else part.named for part in parts]
    )


@dataclass(frozen=True, eq=False)
class Learned:
    """The items that a run learns from.

    Args:
        parts: The parts of the task that they are in.
        rows: Which items of these parts, int64 `[n]`; None for all.
    """

    parts: tuple[Part, ...]
    rows: Tensor | None = None

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts) if self.rows is None else len(self.rows)

    def of(self, values: Tensor) -> Tensor:
        """The values `[n, ...]` of these items, from those of all items of the parts."""
        return values if self.rows is None else values[self.rows]

    def weights(self) -> Tensor | None:
        """How much each item counts, `[n]`, 1 on average; None if all the same."""
        if self.parts[0].weights is None:
            return None
        each = [
            torch.ones(len(part)) if part.weights is None else torch.from_numpy(part.weights)
            for part in self.parts
        ]
        weights = self.of(torch.cat(each).float())
        return weights / weights.mean()

    def groups(self) -> Tensor | None:
        """Number of each item's group from 0, int64 `[n]`; None without groups."""
        numbers = numbered_groups(self.parts)
        if numbers is None or self.rows is None:
            return numbers
        own: Tensor = torch.unique(numbers[self.rows], return_inverse=True)[1]
        return own


def learned_items(task: Task, recipe: Recipe, plan: Plan) -> Learned:
    """The items that a run learns from.

    A closed form also learns from validation items, if nothing is chosen by them, but not from
    items without a seen label, which would only pull predictions to the mean.
    """
    both = plan.closed_form and recipe.use_validation
    parts = (task.train, task.val) if both else (task.train,)
    if not plan.solves:
        return Learned(parts)
    seen = [part.observed.per_item(1) + part.observed.per_item(-1) for part in parts]
    rows = np.flatnonzero(np.concatenate(seen))
    everything = len(rows) in (0, sum(len(part) for part in parts))
    return Learned(parts, None if everything else torch.from_numpy(rows))


def make_task(dataset: Dataset, recipe: Recipe, tick: Callable[[], None] | None = None) -> Task:
    """Observes, splits and loads a data set according to the recipe.

    Args:
        dataset: The data.
        recipe: The settings.
        tick: Called once per decoded image.
    """
    table = split_and_observe(dataset.table, recipe)
    dataset = with_hint_features(dataset, recipe)
    shape = _shape(dataset, recipe)
    files = dataset.features is None
    workers = ImageWorkers(recipe.workers, recipe.device) if files else ImageWorkers()
    make_inputs = _inputs(dataset, recipe, shape[-1], tick, recipe.cache_dir, workers)

    def part(split: str) -> Part:
        rows, of = table.rows_of(split), None
        if (
            split == "val"
            and (chosen := sample(len(rows), len(table.classes), VALIDATION_LABELS)) is not None
        ):
            rows, of = rows[chosen], len(rows)
        items = table.take(rows)
        inputs = make_inputs(rows)
        return Part(
            items.ids,
            inputs,
            items.labels,
            items.truth,
            of=of,
            groups=items.groups,
            hints=items.hints,
            named=items.named,
        )

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
        workers=workers,
        made_by=dataset.made_by,
        hierarchy=table.hierarchy,
    )


def split_and_observe(table: LabelTable, recipe: Recipe) -> LabelTable:
    """The same items with their observed labels, and validation items held out.

    Training items that `train_share` leaves out are in the split "unused".
    """
    table = apply_observation(table, recipe)
    table = hold_out_validation(table, share=recipe.val_share, seed=recipe.split_seed)
    if recipe.train_share == 1:
        return table
    assert table.split is not None
    rows, split = table.rows_of("train"), table.split.astype("<U6")
    split[rows] = "unused"
    groups = None if table.groups is None else table.groups[rows]
    split[random_share(rows, recipe.train_share, recipe.split_seed, groups)] = "train"
    return replace(table, split=split)


def seen_labels(table: LabelTable, recipe: Recipe) -> int:
    """The number of observed labels of the training items, positive and negative."""
    table = split_and_observe(table, recipe)
    labels = table.labels.take(table.rows_of("train"))
    return int(labels.per_class(1).sum() + labels.per_class(-1).sum())


def random_share(
    rows: npt.NDArray[np.int64], share: float, seed: int, groups: Strings | None = None
) -> npt.NDArray[np.int64]:
    """A random share of the rows, ascending, at least one; larger shares contain smaller ones.

    Where the rows have groups, whole groups are drawn.

    >>> rows = np.arange(10)
    >>> random_share(rows, 0.2, 0).tolist(), random_share(rows, 0.4, 0).tolist()
    ([4, 6], [2, 4, 6, 7])
    """
    size, draw = max(1, round(share * len(rows))), np.random.default_rng(seed).permutation
    return np.sort(rows[random_items(len(rows), size, draw, groups)])


def apply_observation(table: LabelTable, recipe: Recipe) -> LabelTable:
    """The table with the labels that training observes.

    `observe="auto"` hides labels only where all are known: a complete table gets the scheme of the
    method; a table with partial labels keeps them, except for the reference methods that are
    defined by observing more (`bce`, `iun`, `iu`).
    """
    scheme = recipe.observe
    if scheme == "auto":
        own = get_method(recipe.method).scheme
        partial = not table.is_complete and own == "single"
        scheme = "given" if table.truth is None or partial else own
        if scheme == "given" and own != "single" and not table.labels.per_class(-1).any():
            raise InputError(
                f"the method {recipe.method} learns from seen negatives, and this data has none; "
                "choose another method, for example gr"
            )
    if scheme == "given":
        return table
    return observe_table(table, scheme, recipe.observe_seed)


def input_shape(dataset: Dataset, recipe: Recipe) -> tuple[int, ...]:
    """Shape of one input: of a feature vector, of an image in memory, or of a resized file."""
    return _shape(with_hint_features(dataset, recipe), recipe)


def with_hint_features(dataset: Dataset, recipe: Recipe) -> Dataset:
    """The data set with hints appended to its feature vectors, if the recipe says so.

    The appended numbers are the log-odds of the hints, centred and scaled in each item to
    `HINT_LENGTH` times the length of its feature vector, so that nothing has to be remembered for
    new items; 0 for an item without hints.
    """
    if not recipe.hint_features:
        return dataset
    x, hints = dataset.features, dataset.table.hints
    if hints is None:
        raise InputError(f"{dataset.name}: hint_features needs hints; give them with --hints FILE")
    if not isinstance(x, np.ndarray) or x.ndim != 2:
        raise InputError(
            f"{dataset.name}: hint_features appends hints to feature vectors held in memory; give "
            "them with --features FILE"
        )
    known = np.clip(hints.astype(np.float64), 1e-4, 1 - 1e-4)
    odds = np.log(known) - np.log1p(-known)
    count = np.maximum((~np.isnan(odds)).sum(axis=1, keepdims=True), 1)
    odds = np.nan_to_num(odds - np.nansum(odds, axis=1, keepdims=True) / count, nan=0.0)
    length = np.linalg.norm(odds, axis=1, keepdims=True)
    full = np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    more = HINT_LENGTH * full * odds / np.where(length > 0, length, 1.0)
    return replace(dataset, features=np.concatenate([x, more.astype(x.dtype)], axis=1))


def _shape(dataset: Dataset, recipe: Recipe) -> tuple[int, ...]:
    if dataset.features is not None:
        return tuple(dataset.features.shape[1:])
    if dataset.table.root is None:
        raise InputError(
            f"{dataset.name}: there are neither image files nor features for these labels; "
            "give the features with --features FILE"
        )
    size = recipe.image_size or backbone_for(recipe.backbone).size
    return (3, size, size)


def same_kind(given: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Whether a model for inputs of one shape takes another: channels or features must agree."""
    if len(given) != len(expected):
        return False
    return given[0] == expected[0] if len(given) == 3 else given[-1] == expected[-1]


def dataset_inputs(
    dataset: Dataset,
    recipe: Recipe,
    shape: tuple[int, ...],
    tick: Callable[[], None] | None = None,
    *,
    cache_dir: str | None = None,
    workers: ImageWorkers | None = None,
) -> Callable[[npt.NDArray[np.int64]], Inputs]:
    """A function from row numbers to inputs of the given shape.

    Args:
        dataset: The data.
        recipe: The settings.
        shape: Shape of one input.
        tick: Called once per decoded image.
        cache_dir: Folder for decoded images. Training passes that of the recipe; prediction, which
            may run elsewhere, does not.
        workers: The processes that decode images; by default new ones, as the recipe says.
    """
    workers = workers or ImageWorkers(recipe.workers, recipe.device)
    dataset = with_hint_features(dataset, recipe)
    if not same_kind(_shape(dataset, recipe), shape):
        raise InputError(f"{dataset.name}: its inputs do not have the expected shape {shape}")
    return _inputs(dataset, recipe, shape[-1], tick, cache_dir, workers)


def _inputs(
    dataset: Dataset,
    recipe: Recipe,
    size: int,
    tick: Callable[[], None] | None,
    cache_dir: str | None,
    workers: ImageWorkers,
) -> Callable[[npt.NDArray[np.int64]], Inputs]:
    """A function from row numbers to inputs; `size` is the side of images."""
    table, x = dataset.table, dataset.features
    if x is not None and x.ndim != 4 and x.nbytes >= LARGE:
        return lambda rows: MappedInputs(rows_of(x, rows))

    def in_memory(rows: npt.NDArray[np.int64]) -> Inputs:
        assert x is not None
        tensor = torch.from_numpy(np.ascontiguousarray(x[rows]))
        if tensor.dtype == torch.float16:
            tensor = tensor.float()  # once, instead of every batch
        return ArrayInputs(tensor, flip=recipe.flip and x.ndim == 4, crops=recipe.crops)

    def from_files(rows: npt.NDArray[np.int64]) -> Inputs:
        paths, aspect = tuple(table.path(row) for row in rows), recipe.aspect
        if recipe.crops != "one":  # decoded once, for their features
            return FileInputs(paths, size, False, workers, aspect, recipe.crops)
        whole = FileInputs(paths, size, recipe.flip, workers, aspect)
        return _kept(whole, len(table), recipe, tick, cache_dir)

    return from_files if x is None else in_memory


def _kept(
    files: FileInputs,
    total: int,
    recipe: Recipe,
    tick: Callable[[], None] | None,
    cache_dir: str | None,
) -> Inputs:
    """Whole images of files, decoded once if they fit; `total` counts those of the data set."""
    paths, size, aspect = files.paths, files.size, files.aspect
    small = total * 3 * size * size <= recipe.cache_mb * 1_000_000
    if cache_dir is not None:
        with main_process_first():
            mapped = cached_images(paths, size, Path(cache_dir), tick, aspect)
        return ArrayInputs(mapped.clone() if small else mapped, flip=recipe.flip)
    if small:
        return ArrayInputs(decode_all(paths, size, tick, aspect), flip=recipe.flip)
    return files


def without_crops(task: Task, recipe: Recipe) -> Task:
    """The same items, with one input for each image: all of it, as steps of training take it."""
    parts = (task.train, task.val, *(() if task.test is None else (task.test,)))
    total = sum(len(part) for part in parts)

    def whole(part: Part) -> Part:
        inputs = part.inputs
        if isinstance(inputs, ArrayInputs):
            return replace(part, inputs=replace(inputs, crops="one"))
        assert isinstance(inputs, FileInputs)
        files = replace(inputs, flip=recipe.flip, crops="one")
        return replace(part, inputs=_kept(files, total, recipe, None, recipe.cache_dir))

    return replace(task, train=whole(task.train), val=whole(task.val))
