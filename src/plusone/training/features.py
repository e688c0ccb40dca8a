"""Features that a backbone makes of images: made once, and kept on disk for later if wanted.

A file is named after everything its content depends on: the weights of the backbone, what the head
makes of its output, and the images: their paths, sizes and times of change, or their bytes where
they are in memory. A changed image therefore gives a new file; old files stay until someone deletes
them, which is safe at any time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from plusone.data.matrix import LabelMatrix
from plusone.io.arrays import write_array
from plusone.io.files import file_state
from plusone.models.classifier import Classifier
from plusone.parallel.processes import from_all, is_writer
from plusone.recipe import Recipe
from plusone.training.build import build
from plusone.training.loader import ArrayInputs, FileInputs, Inputs
from plusone.training.predict import predict
from plusone.types import TrainLabels

VERSION = 1  # to be raised when decoding or extraction changes
BLOCK = 1 << 24  # bytes of images that are read at once for a key


class PooledFeatures:
    """What the head of a model gets to see of some inputs.

    Args:
        tick: Called with the number of items whose features were just extracted.
        folder: Where features are kept; None keeps them in memory only.

    Attributes:
        files: The files that were read or written.
    """

    def __init__(
        self, tick: Callable[[int], None] | None = None, folder: Path | None = None
    ) -> None:
        self.tick, self.folder = tick, folder
        self.files: list[Path] = []
        self._held: dict[int, tuple[Inputs, ArrayInputs]] = {}

    def of(self, model: Classifier, inputs: Inputs) -> ArrayInputs:
        """Features of inputs, extracted if that was not done yet."""
        if id(inputs) not in self._held:
            self._held[id(inputs)] = (inputs, ArrayInputs(self._found(model, inputs)))
        return self._held[id(inputs)][1]

    def clear(self) -> None:
        """Forgets what is in memory: the backbone may have moved since."""
        self._held.clear()

    def _found(self, model: Classifier, inputs: Inputs) -> Tensor:
        path = None
        if self.folder is not None and isinstance(inputs, FileInputs | ArrayInputs):
            path = self.folder / f"features-{key_of(model, inputs)}.npy"
            self.files.append(path)
            kept = _kept(path, len(inputs))
            if all(from_all(kept is not None)) and kept is not None:  # not all may see the disk
                return kept
        found = predict(model, model.features, inputs, kind="images", tick=self.tick).clone()
        if path is not None and is_writer():
            write_array(path, found.numpy())
        return found


def _kept(path: Path, n_items: int) -> Tensor | None:
    """The features in a file; None if it is not there or damaged, and they must be made anew."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return torch.from_numpy(found) if len(found) == n_items else None


def key_of(model: Classifier, inputs: FileInputs | ArrayInputs) -> str:
    """What the features depend on, as a short text."""
    state = hashlib.sha256(repr((VERSION, type(model.head).__name__, model.precision)).encode())
    for name, value in model.backbone.state_dict().items():
        state.update(name.encode())
        state.update(_bytes(value.detach()))
    for part in _files(inputs) if isinstance(inputs, FileInputs) else _pixels(inputs.x):
        state.update(part)
    return state.hexdigest()[:16]


def _files(inputs: FileInputs) -> Iterator[bytes]:
    """What tells files, and what is made of them, from others."""
    yield repr((inputs.size, inputs.aspect)).encode()
    for path in inputs.paths:
        yield f"\0{path.resolve()}\0{file_state(path)}".encode()


def _pixels(x: Tensor) -> Iterator[bytes | memoryview]:
    """All of the images, part by part."""
    yield repr((tuple(x.shape), x.dtype)).encode()
    step = max(1, BLOCK // max(1, x[:1].nbytes))
    for start in range(0, len(x), step):
        yield _bytes(x[start : start + step])


def _bytes(values: Tensor) -> memoryview:
    return values.contiguous().reshape(-1).view(torch.uint8).numpy().data


def fresh_model(recipe: Recipe, observed: LabelMatrix, shape: tuple[int, ...]) -> Classifier:
    """The model that training on images would begin with.

    Args:
        recipe: The settings.
        observed: Seen labels of the items.
        shape: Shape of one image.
    """
    given = recipe.expected_positives
    k = given if isinstance(given, float) else 1.0  # no backbone depends on it
    labels = TrainLabels(observed, k, recipe.seed, True)
    return build(recipe, labels, shape, images=True)[0]
