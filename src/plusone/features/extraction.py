"""Features of images from a backbone: extracted once, then read from the store.

`FeatureCache` serves every run, cross-fitting and estimate; `plusone.data.feature_store` keeps
what it extracts, in pieces, so that a stopped extraction continues. Features are found by the
content of their image, and by a key of everything else that they depend on: the weights of the
backbone, what the head pools of its output, and the crops of an image. `extract_to_file` writes
them for users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.build import build
from plusone.data.dataset import Dataset
from plusone.data.feature_store import FeatureStore
from plusone.data.features import write_features
from plusone.data.images import Aspect, Crops
from plusone.data.matrix import LabelMatrix
from plusone.data.shards import PHOTO_KEY
from plusone.device import resolve
from plusone.errors import InputError
from plusone.features.encoder import Encoder
from plusone.features.parts import Array, compute_in_parts
from plusone.inputs.forward import predict
from plusone.inputs.loader import ArrayInputs, FileInputs, Inputs, MappedInputs, SomeInputs
from plusone.inputs.task import Part, Task, dataset_inputs, input_shape
from plusone.inputs.workers import Count, ImageWorkers
from plusone.io.keys import content_key, file_state
from plusone.methods import ASSUME_NEGATIVE
from plusone.models.classifier import Classifier
from plusone.parallel.processes import (
    all_gather_values,
    is_main_process,
)
from plusone.recipe import Recipe
from plusone.types import TrainLabels

VERSION = 2  # to be raised when decoding or extraction changes
PIECE = 256  # images after which extracted features are kept; a multiple of a batch


class FeatureCache:
    """The pooled features of images, as the head of a model takes them.

    Args:
        tick: Called with the number of items whose features were just extracted, and once with the
            number of those that were there.
        folder: Where the store is; without one they are cached in memory only.
    """

    def __init__(
        self, tick: Callable[[int], None] | None = None, folder: Path | None = None
    ) -> None:
        self.tick = tick
        self.store = None if folder is None else FeatureStore(folder)
        self._held: dict[int, tuple[Inputs, ArrayInputs]] = {}

    def of(self, model: Classifier, inputs: Inputs) -> ArrayInputs:
        """Features of inputs, extracted if that was not done yet."""
        if id(inputs) not in self._held:
            self._held[id(inputs)] = (inputs, ArrayInputs(self._features(model, inputs)))
        return self._held[id(inputs)][1]

    def clear(self) -> None:
        """Empties the cache in memory, for when the backbone has changed."""
        self._held.clear()

    def _features(self, model: Classifier, inputs: Inputs) -> Tensor:
        keys = None if self.store is None else image_keys(inputs, self.store)
        if self.store is None or keys is None:
            return self._extracted(model, inputs)
        space = key_of(model, inputs)
        known: dict[str, npt.NDArray[np.generic]] = {**self.store.get(space, keys)}
        first = {key: row for row, key in reversed([*enumerate(keys)])}
        missing = sorted(row for key, row in first.items() if key not in known)
        if len({*all_gather_values(str(missing))}) > 1:  # machines with different stores
            missing = sorted(first.values())
        if missing and self.tick is not None and len(missing) < len(keys):
            self.tick(len(keys) - len(missing))
        for start in range(0, len(missing), PIECE):
            rows = missing[start : start + PIECE]
            made = self._extracted(model, SomeInputs(inputs, torch.tensor(rows)))
            new = {keys[row]: x for row, x in zip(rows, made.numpy(), strict=True)}
            if is_main_process():
                self.store.put(space, new)
            known |= new
        return torch.from_numpy(np.stack([known[key] for key in keys]))

    def _extracted(self, model: Classifier, inputs: Inputs) -> Tensor:
        return predict(model, model.features, inputs, kind="images", tick=self.tick)


def image_keys(inputs: Inputs, store: FeatureStore) -> list[str] | None:
    """A key of the content of each image; None where inputs are no images."""
    rows = torch.arange(len(inputs))
    while isinstance(inputs, SomeInputs):
        rows, inputs = inputs.rows[rows], inputs.inputs
    if isinstance(inputs, FileInputs):
        paths = [inputs.paths[row] for row in rows.tolist()]
        # Extraction will refuse what is no file.
        return [key or str(path) for key, path in zip(store.photos(paths), paths, strict=True)]
    if isinstance(inputs, ArrayInputs):
        return [content_key(inputs.x[row], length=PHOTO_KEY) for row in rows.tolist()]
    return None


def key_of(model: Classifier, inputs: Inputs) -> str:
    """A key of everything that features depend on, but the images themselves."""
    parts: list[object] = [(VERSION, model.head.pooling, model.precision)]
    if (products := torch.get_float32_matmul_precision()) != "highest":
        parts.append(products)
    for name, value in model.backbone.state_dict().items():
        parts += [name, value]
    while isinstance(inputs, SomeInputs):
        inputs = inputs.inputs
    if isinstance(inputs, FileInputs):
        parts.append((inputs.size, inputs.aspect, inputs.crops))
    elif isinstance(inputs, ArrayInputs):
        parts.append((tuple(inputs.x.shape[1:]), inputs.x.dtype, inputs.crops))
    return content_key(*parts)


def fresh_model(recipe: Recipe, observed: LabelMatrix, shape: tuple[int, ...]) -> Classifier:
    """The model that training on images would begin with."""
    given = recipe.expected_positives
    k = given if isinstance(given, float) else 1.0  # no backbone depends on it
    labels = TrainLabels(observed, k, recipe.seed, True)
    model, _ = build(recipe, labels, shape, images=True)
    model.place(resolve(recipe.device))
    return model


def plain_model(recipe: Recipe, observed: LabelMatrix, shape: tuple[int, ...]) -> Classifier:
    """The same backbone with a linear head, whatever the method: its features are vectors."""
    plain = recipe.model_copy(update={"method": ASSUME_NEGATIVE, "options": {}, "stages": ()})
    return fresh_model(plain, observed, shape)


def with_features(
    dataset: Dataset,
    recipe: Recipe,
    model: Classifier | None = None,
    *,
    tick: Callable[[int], None] | None = None,
    folder: Path | None = None,
) -> Dataset:
    """The same items with the features that a backbone makes of their images."""
    shape = input_shape(dataset, recipe)
    model = model or fresh_model(recipe, dataset.table.labels, shape)
    inputs = dataset_inputs(dataset, recipe, shape, cache_dir=recipe.cache_dir)
    x = FeatureCache(tick, folder).of(model, inputs(np.arange(len(dataset.table)))).x
    return replace(dataset, features=x.numpy())


def feature_task(
    task: Task,
    recipe: Recipe,
    tick: Callable[[int], None] | None = None,
    folder: Path | None = None,
    model: Classifier | None = None,
) -> Task:
    """The same training and validation items, with vectors of a backbone as inputs.

    Args:
        task: The items.
        recipe: The settings.
        tick: Called with the number of items whose features were just extracted.
        folder: Where features of images are cached.
        model: Has the backbone; that of the recipe, as it starts, by default.
    """
    model = model or plain_model(recipe, task.train.observed, task.shape)
    cache = FeatureCache(tick, folder)

    def part(images: Part) -> Part:
        return replace(images, inputs=cache.of(model, images.inputs))

    train, val = part(task.train), part(task.val)
    assert isinstance(train.inputs, ArrayInputs)
    shape = tuple(train.inputs.x.shape[1:])
    return replace(task, train=train, val=val, test=None, images=False, shape=shape)


def vectors_of(
    recipe: Recipe,
    task: Task,
    rows: npt.NDArray[np.int64],
    tick: Callable[[int], None] | None = None,
    folder: Path | None = None,
) -> Tensor:
    """Features of some training items: their own, or vectors of the recipe's backbone."""
    inputs, chosen = task.train.inputs, torch.from_numpy(rows)
    if not task.images:
        assert isinstance(inputs, ArrayInputs | MappedInputs)
        return inputs.at(chosen).float()
    model = plain_model(recipe, task.train.observed, task.shape)
    return FeatureCache(tick, folder).of(model, SomeInputs(inputs, chosen)).x


@dataclass(frozen=True)
class Extraction:
    """A file of features that was written."""

    path: Path
    items: int
    dim: int
    settings: Mapping[str, object]

    def to_json(self) -> dict[str, object]:
        """As plain values."""
        return {"out": str(self.path), "items": self.items, "dim": self.dim, **self.settings}


def extract_to_file(
    dataset: Dataset,
    path: Path,
    backbone: str,
    size: int | None = None,
    workers: Count = "auto",
    on_progress: Callable[[int], None] | None = None,
    *,
    aspect: Aspect = "stretch",
    crops: Crops = "one",
    weights: str = "auto",
    tokens: bool = False,
    batch_size: int | None = None,
    device: str = "auto",
    folder: Path | None = None,
) -> Extraction:
    """Writes `path`, an npz with `ids` `[N]` and features `x` float16 `[N, D]` or `[N, T, D]`.

    A stopped extraction resumes, and several processes share the work: see
    `plusone.features.parts`.

    Args:
        dataset: Items with image files.
        path: The file to write.
        backbone: Name in the backbone table.
        size: Image side; the backbone's own by default.
        workers: Processes that decode images; "auto" goes by the machine.
        on_progress: Called with the number of items done.
        aspect: How images become square, as for `plusone.data.images.decode`.
        crops: Which crops of each image, see `plusone.data.images.CROPS`; several are averaged.
        weights: Weights of the backbone: "auto" for its own, "random", or the path of a file.
        tokens: Keep all T places of the feature map, row by row, instead of their mean.
        batch_size: Most images computed at once; None for as many as fit.
        device: What the backbone computes on, see `plusone.device.resolve`.
        folder: Where the store of features is, which is not used for `tokens`.
    """
    table = dataset.table
    if table.root is None:
        raise InputError(f"{dataset.name}: has no image files to extract features from")
    encoder = Encoder(
        backbone,
        size,
        crops=crops,
        weights=weights,
        tokens=tokens,
        batch_size=batch_size,
        device=device,
    )
    settings = {"backbone": backbone, "size": encoder.size, "data": dataset.name}
    settings |= {"aspect": aspect} if aspect != "stretch" else {}
    settings |= {"crops": crops} if crops != "one" else {}
    settings |= {"weights": weights} if weights != "auto" else {}
    settings |= {"tokens": True} if tokens else {}
    broken = {one.id: one.reason for one in dataset.broken}
    settings |= {"broken": broken} if broken else {}
    paths = tuple(table.path(number) for number in range(len(table)))
    states = [file_state(file) for file in (Path(weights), *paths)]
    key = content_key((settings, table.ids.tolist(), states))
    decoding = ImageWorkers(workers, encoder.device)
    inputs = FileInputs(paths, encoder.size, False, decoding, aspect, crops)

    store = None if folder is None or tokens else FeatureStore(folder)
    keys = None if store is None else image_keys(inputs, store)
    space = "" if store is None else key_of(encoder.model, inputs)

    def computed(rows: npt.NDArray[np.int64]) -> Iterator[Array]:
        for (images,) in inputs.batches(torch.from_numpy(rows), encoder.rows, ("plain",), 0):
            yield encoder(images)

    def extract(rows: npt.NDArray[np.int64]) -> Iterator[Array]:
        if store is None or keys is None:
            yield from (x.astype(np.float16) for x in computed(rows))
            return
        known = store.get(space, [keys[row] for row in rows])
        first = {keys[row]: row for row in rows[::-1]}
        missing = [row for row in rows if keys[row] not in known and first[keys[row]] == row]
        made, done = computed(np.array(missing, dtype=np.int64)), 0
        for start in range(0, len(rows), encoder.rows):
            photos = [keys[row] for row in rows[start : start + encoder.rows]]
            while not known.keys() >= {*photos}:
                batch = next(made)
                own = [keys[row] for row in missing[done : done + len(batch)]]
                new = dict(zip(own, batch, strict=True))
                store.put(space, new)
                known.update(new)
                done += len(batch)
            yield np.stack([known[photo] for photo in photos]).astype(np.float16)

    def write(x: Array) -> None:
        write_features(path, table.ids, x, settings)

    shape = compute_in_parts(path, key, len(table), extract, write, on_progress)
    return Extraction(path, len(table), shape[-1], settings)
