"""EN: as many of each class's lowest predictions count as negatives as there should be negatives.

Verelst et al. 2023, Spatial Consistency Loss for Training Multi-Label Classifiers from Single-Label
Annotations, WACV, as described by Chen et al. 2024 (GR), https://arxiv.org/abs/2405.03501, App. B,
Eq. 20. At the beginning of each epoch and for each class, the N - N_c items with the lowest moving
average of the class's probability become negatives; the other unobserved labels cost nothing.

What our source leaves open, and how it is here:

- N_c, the expected positives of a class, is the number of its seen positives times k N / S, with
  k `expected_positives` and S all seen positives (k itself, if each item has one). That is right
  if each positive of an item is as likely to be the seen one. It is at least the seen positives;
  a class that was never seen has none, so all its labels are negatives.
- Seen negatives count towards the N - N_c; a seen positive is never made a negative.
- The first epoch of training has no averages yet and assumes negatives (`an`).
- The average is over an item's visits, one per epoch, of the probability that the training step
  computed anyway: no pass of its own, and the order of items does not matter. It starts with the
  first probability. It is a float32 buffer `[N, L]`, because half precision would make ties.

`en_cl` adds the squared distance between the probabilities of the model and those of the moving
average of its weights, each on the other's augmentation. Deviation from Verelst et al.: their
average is one of an image's outputs over the epochs, ours one of the weights.

`en_scl` adds the spatial consistency loss. Each image has a map of running averages per class, on a
grid of `grid` x `grid` cells over the whole image. Training sees random crops, some mirrored. The
probabilities at the places of a crop's class maps are compared with the averages at these places of
the image, and after the step the averages of the cells that the crop covers move towards them. So
an object outside the crop keeps its place in the map, and one inside it is remembered from other
crops. What our sources (the abstract, and quotations by others) leave open, and how it is here:

- The distance is squared, and its mean is over classes and places. Places of which no crop has
  been seen cost nothing, so the first epoch has no consistency.
- Maps are read and written by bilinear interpolation (`read` and `written` below), at the centres
  of places; beyond the outermost centres the outermost value holds. A cell is written if its
  centre is inside the crop. Where the maps are much finer than the grid, this takes the four places
  around the centre, not the mean of the cell.
- `decay` is that of the probabilities, also for the averages of the maps, which start with the
  first probability. They are a float16 buffer `[N, L, grid, grid]`.
- Crops are those of the view "crop" (`plusone.inputs._views`): a quarter to all of the area, cut
  from the image at the model's size.
- The averages that choose the negatives are those of the crops' probabilities.
- Feature maps that are given or extracted once are of whole images, unmirrored. Vectors, and
  tokens, whose places in the image are unknown, are a map of one place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import grid_sample
from typing_extensions import TypeVar

from plusone.device import CPU
from plusone.errors import InputError
from plusone.losses import consistency, observed_bce, reduce
from plusone.methods._base import (
    Method,
    MethodInfo,
    Options,
    Part,
    PublishedFigure,
    Range,
)
from plusone.methods._papers import VERELST, XIE_TABLE_2_RESNET
from plusone.methods._tables import columns_of, rows_of, set_columns, set_rows
from plusone.models.heads import Head, SpatialHead
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels

BLOCK = 16  # classes that are sorted together
UNSEEN = -1.0  # an average before the first visit


@dataclass(frozen=True)
class EnOptions(Options):
    """decay: share of the old average of a confidence kept at each visit; ours."""

    decay: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must lie in [0, 1), got {self.decay}")


@dataclass(frozen=True)
class EnConsistencyOptions(EnOptions):
    """weight: of the consistency; teacher_decay: of the averaged weights. Both are ours.

    A teacher far behind holds the model back: on VOC features 0.99 validates better than 0.999.
    """

    weight: float = 1.0
    teacher_decay: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.teacher_decay < 1 or self.weight < 0:
            got = f"{self.teacher_decay}, {self.weight}"
            raise ValueError(f"need 0 < teacher_decay < 1 and weight >= 0, got {got}")


E_co = TypeVar("E_co", bound=EnOptions, covariant=True, default=EnOptions)


class En(Method[E_co]):
    """`en`: averages of probabilities and the present negatives, indexed by item."""

    per_item: ClassVar[tuple[str, ...]] = ("confidence", "negatives")

    def __init__(self, labels: TrainLabels, options: E_co) -> None:
        super().__init__(labels, options)
        self.counts = missing_negatives(labels)
        self.confidence: Tensor
        self.negatives: Tensor
        self.register_buffer("confidence", torch.full(labels.observed.shape, UNSEEN))
        self.register_buffer("negatives", torch.from_numpy(labels.observed.dense() == 0))

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        assumed = rows_of(self.negatives, batch.index) & (batch.observed == 0)
        y = torch.where(assumed, -1.0, batch.observed)
        return {"loss": reduce(observed_bce(outs[0].logits, y))}

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        now = self.probabilities(outs[0].logits).to(self.confidence.dtype)
        old = rows_of(self.confidence, batch.index)
        set_rows(self.confidence, batch.index, averaged(old, now, self.options.decay))

    def after_epoch(self, clock: Clock, predict: Callable[[], Tensor]) -> None:
        device = self.confidence.device
        unobserved = torch.from_numpy(self.labels.observed.dense() == 0).to(device)
        for first in range(0, self.labels.n_classes, BLOCK):
            block = slice(first, first + BLOCK)
            confidence, counts = columns_of(self.confidence, block), self.counts[block].to(device)
            set_columns(self.negatives, lowest(confidence, unobserved[:, block], counts), block)

    def estimates(self, rows: Tensor | None = None) -> Tensor:
        seen = torch.from_numpy(self.labels.observed.dense(rows))
        confidence = rows_of(self.confidence, rows).to(CPU)
        unobserved = torch.where(seen == 0, confidence.clamp(min=0), 0.0)
        return torch.where(seen == 1, 1.0, unobserved)


@dataclass(frozen=True)
class EnSpatialOptions(EnOptions):
    """weight: of the consistency; grid: cells of a map per side. Both are ours."""

    weight: float = 1.0
    grid: int = 7

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight < 0 or self.grid < 1:
            raise ValueError(f"need weight >= 0 and grid >= 1, got {self.weight}, {self.grid}")


class EnConsistent(En[EnConsistencyOptions]):
    """`en_cl`: the model on one augmentation agrees with its moving average on the other."""

    views: tuple[str, ...] = ("weak", "weak")

    def __init__(self, labels: TrainLabels, options: EnConsistencyOptions) -> None:
        super().__init__(labels, options)
        self.teacher = options.teacher_decay

    def begin_stage(self, stage: Stage) -> None:
        super().begin_stage(stage)
        self.teacher = self.options.teacher_decay

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        if len(batch.teacher) != len(outs):
            raise ValueError("the batch lacks the outputs of the model's moving average")
        distances = [
            consistency(out.logits, other.logits)
            for out, other in zip(outs, reversed(batch.teacher), strict=True)
        ]
        mean = torch.stack(distances).mean()
        return super().loss(outs, batch, clock) | {"consistency": self.options.weight * mean}


class EnSpatial(En[EnSpatialOptions]):
    """`en_scl`: the class maps of a crop agree with the averages of the image at its place."""

    views = ("crop",)
    fixed = ("grid",)
    per_item = (*En.per_item, "maps")

    def __init__(self, labels: TrainLabels, options: EnSpatialOptions) -> None:
        super().__init__(labels, options)
        grid = options.grid if labels.places else 1
        shape = (*labels.observed.shape, grid, grid)
        self.maps: Tensor
        self.register_buffer("maps", torch.full(shape, UNSEEN, dtype=torch.float16))

    def make_head(self, dim: int) -> Head:
        return SpatialHead(dim, self.labels.n_classes)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        now = self._places(outs[0])
        averages = rows_of(self.maps, batch.index).to(now.dtype)
        before, seen = read(averages, _boxes(batch), now.shape[2], now.shape[3])
        distances = seen * (now - before) ** 2
        term = {"consistency": self.options.weight * distances.mean()}
        return super().loss(outs, batch, clock) | term

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        super().after_step(outs, batch, clock)
        now = self._places(outs[0]).float()
        averages = rows_of(self.maps, batch.index).float()
        new = written(averages, now, _boxes(batch), self.options.decay)
        set_rows(self.maps, batch.index, new.to(self.maps.dtype))

    def _places(self, out: Outputs) -> Tensor:
        """Probabilities `[B, L, h, w]` at the places of the view."""
        if out.maps is not None and out.features.ndim == 4:
            return self.probabilities(out.maps)
        return self.probabilities(out.logits[:, :, None, None])


def _boxes(batch: Batch) -> Tensor:
    """What the first view shows of its images, `[B, 4]`, see `Batch.boxes`."""
    if batch.boxes is not None:
        return batch.boxes[:, 0]
    boxes = torch.zeros(len(batch.index), 4, device=batch.index.device)
    boxes[:, 2:] = 1
    return boxes


def averaged(old: Tensor, now: Tensor, decay: float) -> Tensor:
    """A running average with a new value; the first value where there is none yet."""
    return torch.where(old < 0, now, torch.lerp(now, old, decay))


def read(averages: Tensor, boxes: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """The averages at the places of views.

    Args:
        averages: Of whole images, `[B, L, g, g]`, negative where nothing was seen yet; an image's
            classes are seen together.
        boxes: What the views show, `[B, 4]`, see `Batch.boxes`.
        height: Places of a view, from top to bottom.
        width: Places of a view, from left to right.

    Returns:
        The averages `[B, L, height, width]`, and which share of each was seen, `[B, 1, height,
        width]`; the average is 0 where nothing was.
    """
    left, top, right, bottom = boxes.to(averages.dtype).unbind(1)
    across, down = _centres(width, averages), _centres(height, averages)
    x = left[:, None] + across * (right - left)[:, None]
    y = top[:, None] + down * (bottom - top)[:, None]
    seen = (averages[:, :1] >= 0).to(averages.dtype)
    share = _sampled(seen, x, y)
    return _sampled(averages * seen, x, y) / torch.where(share > 0, share, 1.0), share


def written(averages: Tensor, now: Tensor, boxes: Tensor, decay: float) -> Tensor:
    """The averages of whole images after their views were seen.

    Args:
        averages: `[B, L, g, g]`, negative where nothing was seen yet.
        now: At the places of the views, `[B, L, h, w]`.
        boxes: What the views show, `[B, 4]`.
        decay: Share of an old average that is kept.

    Returns:
        `[B, L, g, g]`, the old averages where the centre of a cell is outside of the view.
    """
    left, top, right, bottom = boxes.to(now.dtype).unbind(1)
    across, down = _centres(averages.shape[3], now), _centres(averages.shape[2], now)
    x = (across - left[:, None]) / (right - left)[:, None]
    y = (down - top[:, None]) / (bottom - top)[:, None]
    inside = ((y >= 0) & (y <= 1))[:, None, :, None] & ((x >= 0) & (x <= 1))[:, None, None, :]
    return torch.where(inside, averaged(averages, _sampled(now, x, y), decay), averages)


def _centres(n: int, like: Tensor) -> Tensor:
    """The centres of n places side by side, from 0 to 1."""
    return (torch.arange(n, device=like.device, dtype=like.dtype) + 0.5) / n


def _sampled(maps: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Maps `[B, C, h, w]` at the points `[B, H, W]` with x `[B, W]` and y `[B, H]` in [0, 1]."""
    shape = (len(maps), y.shape[1], x.shape[1])
    points = torch.stack([x[:, None, :].expand(shape), y[:, :, None].expand(shape)], 3)
    return grid_sample(
        maps, 2 * points - 1, mode="bilinear", padding_mode="border", align_corners=False
    )


def missing_negatives(labels: TrainLabels) -> Tensor:
    """How many unobserved labels of each class should be negatives, int64 `[L]`.

    >>> from plusone.data.matrix import LabelMatrix
    >>> seen = LabelMatrix.from_dense([[1, 0], [1, 0], [0, 1], [0, 0]])
    >>> missing_negatives(TrainLabels(seen, expected_positives=1.5)).tolist()
    [0, 2]
    """
    if labels.expected_positives is None:
        raise InputError("the methods en, en_cl and en_scl need expected_positives")
    positives = torch.from_numpy(labels.observed.per_class(1))
    negatives = torch.from_numpy(labels.observed.per_class(-1))
    factor = labels.expected_positives * labels.n_items / max(int(positives.sum()), 1)
    expected = torch.maximum((positives * factor).round().long(), positives)
    return (labels.n_items - negatives - expected).clamp(min=0)


def lowest(confidence: Tensor, among: Tensor, counts: Tensor) -> Tensor:
    """Marks each class's lowest entries, exactly `counts` of them; of equal ones the first.

    Args:
        confidence: `[N, L]`.
        among: Which entries may be marked, bool `[N, L]`.
        counts: How many of each class, int64 `[L]`; no more than may be marked.

    Returns:
        bool `[N, L]`.

    >>> lowest(torch.tensor([[0.3], [0.1], [0.2]]), torch.ones(3, 1).bool(), torch.tensor([2]))
    tensor([[False],
            [ True],
            [ True]])
    """
    order = torch.sort(torch.where(among, confidence, torch.inf), dim=0, stable=True).indices
    ranks = torch.arange(len(confidence), device=confidence.device).unsqueeze(1)
    return torch.zeros_like(among).scatter_(0, order, ranks < counts)


INFOS = (
    MethodInfo(
        name="en",
        build=En,
        options=EnOptions,
        paper=VERELST,
        year=2023,
        summary=(
            "each class's lowest predictions are negatives, as many as expected; others are ignored"
        ),
        needs_k=True,
        alone="it remembers predictions of its own",
        grid=({"decay": 0.0}, {"decay": 0.9}),
        search_space={"decay": Range(0.0, 0.95)},
    ),
    MethodInfo(
        name="en_cl",
        title="EN+CL",
        build=EnConsistent,
        options=EnConsistencyOptions,
        paper=VERELST,
        year=2023,
        summary="en, and predictions agree with those of the model's moving average",
        needs_k=True,
        alone="it has a teacher",
        grid=({"weight": 0.1}, {"weight": 10.0}),
        search_space={"decay": Range(0.0, 0.95), "weight": Range(0.01, 100.0, log=True)},
        published=(PublishedFigure("finetune", XIE_TABLE_2_RESNET, 87.6, 71.6),),
        ablation=(
            Part("none: AN", method="an"),
            Part("expected negatives", {"weight": 0.0}),
            Part("expected negatives + consistency"),
        ),
    ),
    MethodInfo(
        name="en_scl",
        title="EN+SCL",
        build=EnSpatial,
        options=EnSpatialOptions,
        paper=VERELST,
        year=2023,
        summary="en, and the class maps of random crops agree with an image's running maps",
        needs_k=True,
        has_maps=True,
        alone="it remembers predictions of its own",
        grid=({"weight": 0.1}, {"weight": 10.0}),
        search_space={"decay": Range(0.0, 0.95), "weight": Range(0.01, 100.0, log=True)},
        published=(PublishedFigure("finetune", XIE_TABLE_2_RESNET, 88.0, 72.1),),
    ),
)
