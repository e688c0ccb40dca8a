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

`en_cl` and `en_scl` add the squared distance between the probabilities of the model and those of
the moving average of its weights: of whole images (cl, each on the other's augmentation) or at
every place of the class maps (scl). Deviations from Verelst et al.: their average is one of an
image's outputs over the epochs, ours one of the weights; their maps follow random crops, ours
compare both models on one and the same view, so that places correspond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import TypeVar

from plusone.device import CPU
from plusone.errors import InputError
from plusone.losses import consistency, observed_bce, reduce
from plusone.methods.base import (
    Method,
    MethodInfo,
    Options,
    Part,
    PublishedFigure,
    Range,
)
from plusone.methods.papers import VERELST, XIE_TABLE_2_RESNET
from plusone.methods.tables import columns_of, rows_of, set_columns, set_rows
from plusone.models.heads import Head, SpatialHead
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels

BLOCK = 16  # classes that are sorted together


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

    per_item = ("confidence", "negatives")

    def __init__(self, labels: TrainLabels, options: E_co) -> None:
        super().__init__(labels, options)
        self.counts = missing_negatives(labels)
        self.confidence: Tensor  # -1 before the first visit
        self.negatives: Tensor
        self.register_buffer("confidence", torch.full(labels.observed.shape, -1.0))
        self.register_buffer("negatives", torch.from_numpy(labels.observed.dense() == 0))

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        assumed = rows_of(self.negatives, batch.index) & (batch.observed == 0)
        y = torch.where(assumed, -1.0, batch.observed)
        return {"loss": reduce(observed_bce(outs[0].logits, y))}

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        now = self.probabilities(outs[0].logits).to(self.confidence.dtype)
        old = rows_of(self.confidence, batch.index)
        new = torch.where(old < 0, now, torch.lerp(now, old, self.options.decay))
        set_rows(self.confidence, batch.index, new)

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
            consistency(self.compared(out), self.compared(other))
            for out, other in zip(outs, reversed(batch.teacher), strict=True)
        ]
        mean = torch.stack(distances).mean()
        return super().loss(outs, batch, clock) | {"consistency": self.options.weight * mean}

    def compared(self, out: Outputs) -> Tensor:
        """The logits that must agree."""
        return out.logits


class EnSpatial(EnConsistent):
    """`en_scl`: the class maps agree; feature vectors have no maps and their logits agree."""

    views = ("weak",)  # one view, seen by both models: places stay where they are

    def make_head(self, dim: int) -> Head:
        return SpatialHead(dim, self.labels.n_classes)

    def compared(self, out: Outputs) -> Tensor:
        return out.logits if out.maps is None else out.maps


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
        build=EnSpatial,
        options=EnConsistencyOptions,
        paper=VERELST,
        year=2023,
        summary="en, and class maps agree with those of the model's moving average",
        needs_k=True,
        has_maps=True,
        alone="it has a teacher",
        grid=({"weight": 0.1}, {"weight": 10.0}),
        search_space={"decay": Range(0.0, 0.95), "weight": Range(0.01, 100.0, log=True)},
        published=(PublishedFigure("finetune", XIE_TABLE_2_RESNET, 88.0, 72.1),),
    ),
)
