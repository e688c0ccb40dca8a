"""What is forwarded in a stage: images, features of images or of the data, or vectors of a map.

The batches of an epoch are the same whenever it is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from plusone.build import Plan
from plusone.closed_form.gamma import SAMPLED, Kernel, best_kernel
from plusone.closed_form.kernel import (
    GAMMA,
    FeatureMap,
    KernelMap,
    LinearMap,
    MappedHead,
    StandardMap,
    kind_of,
    n_landmarks,
)
from plusone.closed_form.vectors import Passes, Rows
from plusone.data.matrix import LabelMatrix
from plusone.device import device_of
from plusone.features.extraction import FeatureCache
from plusone.inputs.forward import predict
from plusone.inputs.loader import (
    ArrayInputs,
    Inputs,
    MappedInputs,
    SomeInputs,
    label_batches,
    visiting_order,
)
from plusone.inputs.placement import own_part, owners_of, place
from plusone.inputs.task import Learned, Part, Task, numbered_groups
from plusone.models.backbones import feature_dim
from plusone.models.classifier import Classifier
from plusone.models.heads import Head
from plusone.parallel.passes import ranks_of_passes
from plusone.parallel.processes import world
from plusone.recipe import Recipe
from plusone.seeds import derive, generator
from plusone.training.pieces import forward_views
from plusone.types import Batch, Outputs, Stage

if TYPE_CHECKING:
    from plusone.training.trainer import Training


class Space:
    """The vectors that a head is trained on, under a map fitted on the items learned from.

    Args:
        map: The map; it is fitted here.
        features: Gives the features `[N, D]` of inputs.
        learned: The items that are learned from.

    Attributes:
        x: Features of all items of the parts that are learned from, `[N, D]`.
        vectors: Vectors of the items that are learned from, `[n, r]`.
        weights: How much each of them counts, `[n]`; None if all the same.
    """

    def __init__(
        self, map: FeatureMap, features: Callable[[Inputs], Rows], learned: Learned
    ) -> None:
        self.map, self.features = map, features
        weights, parts = learned.weights(), [features(part.inputs) for part in learned.parts]
        self.weights = None if weights is None else weights.to(device_of(map))
        self.x = Rows.joined(parts)
        with torch.no_grad():
            self.vectors = map.learn(Rows.joined(parts, learned.rows), self.weights)
        self._held: dict[int, tuple[Inputs, ArrayInputs]] = {}

    def of(self, inputs: Inputs) -> ArrayInputs:
        """The vectors of inputs, in memory."""
        if id(inputs) not in self._held:
            with torch.no_grad():
                vectors = self.features(inputs).mapped(self.map, self.map.rank)
                self._held[id(inputs)] = (
                    inputs,
                    ArrayInputs(vectors.at(torch.arange(len(vectors)))),
                )
        return self._held[id(inputs)][1]


class StageInputs:
    """Inputs on the device, extracted and mapped once per stage.

    Args:
        task: The data.
        recipe: The settings.
        plan: What the run does; heads that are solved in closed form need a map.
        learned: The items that are learned from, on which a map is fitted.
        model: The model; its backbone extracts features.
        device: Where batches are needed.
        cache: Extracts features of images.

    Attributes:
        stage: The current stage, see `begin`.
        mapped: Whether a map lies between features and head in every stage.
        space: The vectors that the head is trained on, where there is a map.
        passes: Keeps what passes of a closed form add up, if they shall be kept.
    """

    def __init__(
        self,
        task: Task,
        recipe: Recipe,
        plan: Plan,
        learned: Learned,
        model: Classifier,
        device: torch.device,
        cache: FeatureCache,
    ) -> None:
        self.task, self.recipe, self.plan, self.learned = task, recipe, plan, learned
        self.model, self.device, self._cache = model, device, cache
        self.stage: Stage
        self.mapped = plan.kernel or recipe.standardize
        self.space: Space | None = None
        self.passes: Passes | None = None
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
        return predict(forward, forward, inputs, kind=kind)

    def head_vectors(self) -> Tensor:
        """What the head gets for each training item in a stage on features, `[N, D]`."""
        inputs, kind, forward = self.forward(self.task.train, self.model)
        return predict(self.model, lambda x: forward(x).features, inputs, kind=kind)

    def forward(self, part: Part, model: Classifier) -> tuple[Inputs, str, nn.Module]:
        """Inputs of the current stage, their kind, and what to apply to them."""
        if self.space is not None:
            if not self.plan.solves:
                return self.space.of(part.inputs), "features", model.head
            x = self._extracted(part.inputs) if self.task.images else self._on_device(part.inputs)
            return x, "features", MappedHead(self.space.map, model.head)
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
        return self._vectors(inputs).at(chosen)

    def enter_space(self, space: Space | None = None) -> None:
        """Fits the map between features and head, if the stage has one and it was not done.

        Args:
            space: Of another run on the same items, to share.
        """
        self.space = self.space or space
        needed = self.mapped or (self.plan.solves and self.stage.inputs == "features")
        if self.space is None and needed:
            features_map = self.new_map(self._chosen_kernel() if self.plan.kernel else None)
            self.space = Space(features_map.to(self.device), self._vectors, self.learned)

    def new_map(self, kernel: Kernel | None) -> FeatureMap:
        """The map between features and head, not fitted yet.

        Args:
            kernel: The kernel, where the head has one.
        """
        images, shape = self.task.images, self.task.shape
        dim = feature_dim(self.model.backbone) if images else shape[-1]
        if kernel is None and not self.plan.solves:
            return StandardMap(dim)
        inner: FeatureMap = LinearMap(dim)
        if kernel is not None:
            landmarks = n_landmarks(len(self.learned), len(self.task.classes))
            inner = KernelMap(dim, landmarks, kernel.gamma, kernel.kind)
        return StandardMap(dim, inner) if self.recipe.standardize else inner

    def empty_map(self, names: Iterable[str]) -> FeatureMap:
        """The map of a saved run, by the names of its tensors, to load them into."""
        return self.new_map(Kernel(kind_of(names), GAMMA) if self.plan.kernel else None)

    def _chosen_kernel(self) -> Kernel:
        """The kernel, by the seen labels of some items that are learned from."""
        parts, rows, count = self.learned.parts, self.learned.rows, len(self.learned)
        some = torch.linspace(0, count - 1, min(count, SAMPLED)).long()
        some = some if rows is None else rows[some]
        x = Rows.joined([self._vectors(part.inputs) for part in parts]).at(some).to(self.device)
        if self.recipe.standardize:
            x = StandardMap(x.shape[1]).to(self.device).fit(x)
        observed = LabelMatrix.concatenate([part.observed for part in parts]).take(some)
        groups = numbered_groups(parts)
        groups = None if groups is None else groups[some]
        return best_kernel(x, observed, groups, self.recipe.kernel, self.recipe.gamma)

    def _vectors(self, inputs: Inputs) -> Rows:
        """Features `[N, D]` of inputs, which every process can read."""
        if self.task.images:
            inputs = self._cache.of(self.model, inputs)
        assert isinstance(inputs, ArrayInputs | MappedInputs)
        x, pool = inputs, Head().pool
        width = pool(x.at(torch.arange(1))).shape[1]
        ranks = ranks_of_passes(self.passes)
        return Rows(lambda rows: pool(x.at(rows).float()), len(x), width, ranks)

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


@dataclass(frozen=True)
class Begun:
    """An epoch whose first batches may be under way.

    Args:
        epoch: Its stage and number, from 0.
        order: The items in the order in which they are visited, int64 `[N]`.
        views: The views of each batch.
        boxes: The part of each item that its views show; None if they show all.
    """

    epoch: tuple[int, int]
    order: Tensor
    views: Iterator[tuple[Tensor, ...]]
    boxes: Tensor | None


def begin(training: Training, epoch: int) -> Begun:
    """Begins an epoch of the current stage: workers prepare its first batches from now on."""
    train, recipe, views = training.task.train, training.recipe, training.method.views
    draw = generator(recipe.seed, "order", training.stage, epoch)
    order = visiting_order(len(train), train.weights, draw)
    inputs, _, _ = training.inputs.forward(train, training.model)
    seed = derive(recipe.seed, "views", training.stage, epoch) >> 1
    arguments = (order, recipe.batch_size, views, seed)
    if training.ranks:
        batches = training.ranks.batches(inputs, *arguments, owners_of(inputs, order))
    else:
        batches = inputs.batches(*arguments)
    boxes = inputs.boxes(views, len(order), seed)
    return Begun((training.stage, epoch), order, batches, boxes)


def batches_of(training: Training, begun: Begun | None = None) -> Iterator[Batch]:
    """The batches of the current epoch.

    Args:
        training: The run.
        begun: The epoch, if it was begun before.
    """
    if begun is None or begun.epoch != (training.stage, training.epoch):
        begun = begin(training, training.epoch)
    order, size, device = begun.order, training.recipe.batch_size, training.device
    labels = label_batches(training.task.train.observed, order, size, device)
    indices = torch.split(order.to(device), size)
    shown = (
        torch.split(begun.boxes.to(device), size)
        if begun.boxes is not None
        else [None] * len(indices)
    )
    for view, observed, index, box in zip(begun.views, labels, indices, shown, strict=True):
        yield Batch(view, observed, index, _teach(training, view), box)


def _teach(training: Training, views: tuple[Tensor, ...]) -> tuple[Outputs, ...]:
    """Outputs of the averaged model for each view of a batch, for methods with a teacher."""
    if "teacher" not in training.averages:
        return ()
    _, _, forward = training.inputs.forward(training.task.train, training.averages["teacher"].model)
    with torch.no_grad():
        return forward_views(forward, views, training.gradients.pieces, training.ranks)
