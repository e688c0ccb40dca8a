"""Features of images: extracted once for a training, and kept on disk for later ones if wanted.

A file is named after everything its content depends on: the weights of the backbone, what the head
makes of its output, and the images' paths, sizes and times of change. A changed image therefore
gives a new file; old files stay until someone deletes them, which is safe at any time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from plusone.engine.inputs import ArrayInputs, FileInputs, Inputs
from plusone.engine.predict import predict
from plusone.files import file_state, replacing
from plusone.models.classifier import Classifier

VERSION = 1  # to be raised when decoding or extraction changes


class PooledFeatures:
    """What the head of a model gets to see of some inputs.

    Args:
        tick: Called with the number of items whose features were just extracted.
        folder: Where features of image files are kept; None keeps them in memory only.
    """

    def __init__(
        self, tick: Callable[[int], None] | None = None, folder: Path | None = None
    ) -> None:
        self.tick, self.folder = tick, folder
        self._held: dict[int, tuple[Inputs, Inputs]] = {}

    def of(self, model: Classifier, inputs: Inputs) -> Inputs:
        """Features of inputs, extracted if that was not done yet."""
        if id(inputs) not in self._held:
            self._held[id(inputs)] = (inputs, ArrayInputs(self._found(model, inputs)))
        return self._held[id(inputs)][1]

    def clear(self) -> None:
        """Forgets what is in memory: the backbone may have moved since."""
        self._held.clear()

    def _found(self, model: Classifier, inputs: Inputs) -> Tensor:
        path = None
        if self.folder is not None and isinstance(inputs, FileInputs):
            path = self.folder / f"features-{key_of(model, inputs)}.npy"
            if (kept := _kept(path, len(inputs))) is not None:
                return kept
        found = predict(model, model.features, inputs, kind="images", tick=self.tick).clone()
        if path is not None:
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.save(file, found.numpy(), allow_pickle=False)
        return found


def _kept(path: Path, n_items: int) -> Tensor | None:
    """The features in a file; None if it is not there or damaged, and they must be made anew."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return torch.from_numpy(found) if len(found) == n_items else None


def key_of(model: Classifier, inputs: FileInputs) -> str:
    """What the features depend on, as a short text."""
    about = (VERSION, type(model.head).__name__, model.precision, inputs.size, inputs.aspect)
    state = hashlib.sha256(repr(about).encode())
    for name, value in model.backbone.state_dict().items():
        state.update(name.encode())
        state.update(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    for path in inputs.paths:
        state.update(f"\0{path.resolve()}\0{file_state(path)}".encode())
    return state.hexdigest()[:16]
