"""What is forwarded in a stage: images, features of images or of the data, or vectors of a map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from plusone.build import head_of
from plusone.closed_form.gamma import SAMPLED, Kernel, best_kernel
from plusone.closed_form.kernel import (
    GAMMA,
    FeatureMap,
    KernelMap,
    LinearMap,
    StandardMap,
    kind_of,
    n_landmarks,
)
from plusone.features.extraction import FeatureCache
from plusone.features.space import Space
from plusone.inputs.forward import predict
from plusone.inputs.loader import ArrayInputs, Inputs, MappedInputs, SomeInputs
from plusone.inputs.placement import own_part, place
from plusone.inputs.task import Part, Task, numbered_groups
from plusone.models.backbones import feature_dim
from plusone.models.classifier import Classifier
from plusone.models.heads import Head
from plusone.parallel.processes import world
from plusone.recipe import Recipe
from plusone.types import Stage


class StageInputs:
    """Inputs on the device, extracted and mapped once per stage.

    Args:
        task: The data.
        recipe: The settings.
        model: The model; its backbone extracts features.
        device: Where batches are needed.
        cache: Extracts features of images.
        parts: The parts that are learned from, on which a map is fitted.
        rows: Which of their items are learned from, int64 `[n]`; None for all.
        solved: Whether heads on features are solved in closed form, which needs a map.

    Attributes:
        stage: The current stage, see `begin`.
        mapped: Whether a map lies between features and head in every stage.
        space: The vectors that the head is trained on, where there is a map.
    """

    def __init__(
        self,
        task: Task,
        recipe: Recipe,
        model: Classifier,
        device: torch.device,
        cache: FeatureCache,
        parts: Sequence[Part],
        rows: Tensor | None = None,
        *,
        solved: bool = False,
    ) -> None:
        self.task, self.recipe, self.model, self.device = task, recipe, model, device
        self.parts, self.rows, self.solved, self._cache = parts, rows, solved, cache
        self.stage: Stage
        self._kernel = head_of(recipe, images=task.images) == "kernel"
        self.mapped = self._kernel or recipe.standardize
        self.space: Space | None = None
        self._placed: dict[int, tuple[Inputs, Inputs]] = {}

    def begin(self, stage: Stage) -> None:
        """Begins a stage; forgets features, for the backbone may have changed since."""
        self.stage = stage
        self._cache.clear()
        self._placed.clear()

    def logits(self, part: Part, model: Classifier, rows: Tensor | None = None) -> Tensor:
        """Logits `[N, L]` of a part of the task.

        Args:
            part: The part.
            model: The model, or one with other weights.
            rows: Which of its items, int64 `[N]`; None for all.
        """
        inputs, kind, forward = self.forward(part, model)
        inputs = inputs if rows is None else SomeInputs(inputs, rows)
        return predict(model, forward, inputs, kind=kind)

    def head_vectors(self) -> Tensor:
        """What the head gets for each training item in a stage on features, `[N, D]`."""
        inputs, kind, forward = self.forward(self.task.train, self.model)
        return predict(self.model, lambda x: forward(x).features, inputs, kind=kind)

    def forward(self, part: Part, model: Classifier) -> tuple[Inputs, str, nn.Module]:
        """Inputs of the current stage, their kind, and what to apply to them."""
        if self.space is not None:
            return self.space.of(part.inputs), "features", model.head
        if not self.task.images:
            # Vectors go straight to the head; tokens may have to be pooled for it first.
            head = model.head if len(self.task.shape) == 1 else model
            return self._on_device(part.inputs), "features", head
        if self.stage.inputs == "images":
            return self._on_device(part.inputs), "images", model
        return self._extracted(part.inputs), "features", model.head

    def vectors(self, rows: npt.NDArray[np.int64]) -> Tensor:
        """Features of some training items, `[n, D]` or `[n, T, D]`."""
        inputs, chosen = self.task.train.inputs, torch.from_numpy(rows)
        if isinstance(inputs, ArrayInputs | MappedInputs) and not self.task.images:
            return inputs.at(chosen).float()
        return self._vectors(inputs)[chosen]

    def enter_space(self, space: Space | None = None) -> None:
        """Fits the map between features and head, if the stage has one and it was not done.

        Args:
            space: Of another run on the same items, to share.
        """
        self.space = self.space or space
        needed = self.mapped or (self.solved and self.stage.inputs == "features")
        if self.space is None and needed:
            features_map = self.new_map(self._chosen_kernel() if self._kernel else None)
            self.space = Space(features_map.to(self.device), self._vectors, self.rows)
            self.space.fit([part.inputs for part in self.parts], self.item_weights())

    def new_map(self, kernel: Kernel | None) -> FeatureMap:
        """The map between features and head, not fitted yet.

        Args:
            kernel: The kernel, where the head has one.
        """
        images, shape = self.task.images, self.task.shape
        dim = feature_dim(self.model.backbone) if images else shape[-1]
        if kernel is None and not self.solved:
            return StandardMap(dim)
        n_items = sum(len(part) for part in self.parts) if self.rows is None else len(self.rows)
        inner: FeatureMap = LinearMap(dim)
        if kernel is not None:
            inner = KernelMap(dim, n_landmarks(n_items), kernel.gamma, kernel.kind)
        return StandardMap(dim, inner) if self.recipe.standardize else inner

    def empty_map(self, names: Iterable[str]) -> FeatureMap:
        """The map of a saved run, by the names of its tensors, to load them into."""
        return self.new_map(Kernel(kind_of(names), GAMMA) if self._kernel else None)

    def item_weights(self) -> Tensor | None:
        """How much each item that is learned from counts, 1 on average; None if all the same."""
        if self.task.train.weights is None:
            return None
        weights = [
            torch.ones(len(part)) if part.weights is None else torch.from_numpy(part.weights)
            for part in self.parts
        ]
        whole = torch.cat(weights).float().to(self.device)
        whole = whole if self.rows is None else whole[self.rows]
        return whole / whole.mean()

    def _chosen_kernel(self) -> Kernel:
        """The kernel, by the seen labels of some items that are learned from."""
        parts, recipe = self.parts, self.recipe
        count = sum(len(part) for part in parts) if self.rows is None else len(self.rows)
        some = torch.linspace(0, count - 1, min(count, SAMPLED)).long()
        some = some if self.rows is None else self.rows[some]
        x = torch.cat([self._vectors(part.inputs) for part in parts])[some].to(self.device)
        if self.recipe.standardize:
            x = StandardMap(x.shape[1]).to(self.device).fit(x)
        observed = np.concatenate([part.observed.dense() for part in parts])[some.numpy()]
        groups = numbered_groups(parts)
        groups = None if groups is None else groups[some]
        return best_kernel(
            x,
            torch.from_numpy(observed).to(self.device).float(),
            groups,
            recipe.kernel,
            recipe.gamma,
        )

    def _vectors(self, inputs: Inputs) -> Tensor:
        """Features `[N, D]` of inputs."""
        if self.task.images and world()[1] == 1:
            return Head().pool(self._cache.of(self.model, inputs).x)
        if self.task.images:
            inputs = self._extracted(inputs)
        elif len(self.task.shape) == 1 and isinstance(inputs, ArrayInputs):
            return inputs.x.float()
        return predict(self.model, Head().pool, inputs, kind="features").float()

    def _extracted(self, images: Inputs) -> Inputs:
        """The features of images with batches on the device."""
        if world()[1] == 1:
            return self._on_device(self._cache.of(self.model, images))
        if id(images) not in self._placed:
            features = own_part(self._cache.of(self.model, images), self.device)
            self._placed[id(images)] = (images, features)
            self._cache.clear()  # this process keeps its part alone
        return self._placed[id(images)][1]

    def _on_device(self, inputs: Inputs) -> Inputs:
        """The same inputs with batches on the device; features move there once."""
        if id(inputs) not in self._placed:
            placed = own_part if world()[1] > 1 else place
            self._placed[id(inputs)] = (inputs, placed(inputs, self.device))
        return self._placed[id(inputs)][1]
