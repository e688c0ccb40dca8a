"""EM: unobserved labels are unknown, so their entropy is kept high; EM + APL adds soft negatives.

Zhou et al. 2022, Acknowledging the Unknown for Multi-label Learning with Single Positive Labels,
ECCV, https://arxiv.org/abs/2203.16219: EM (`em`, Eq. 3), EM + APL (`em_apl`, Algorithm 1, Eq.
6-8), and entropy minimization (`entmin`), published as a failure.

APL: after `warmup` epochs, at the end of every epoch but the last: of each class's still unobserved
labels, those with the lowest probability get that probability as a soft label. Their number is
theta / (T - warmup) of the class's initially unobserved labels, rounded down. They accumulate and
are never revised.

The released program ends a run at the first epoch without a better validation mAP; here all epochs
are trained unless the recipe says `patience = 1`, and the best one is kept in either case.

Deviation: the released program writes them as negative numbers into the observed labels; here they
are a buffer of the method's own, float32 `[N, L]`, -1 where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.losses import (
    entropy_maximization,
    entropy_minimization,
    entropy_with_pseudo_labels,
    reduce,
)
from plusone.methods._base import (
    Choice,
    Method,
    MethodInfo,
    Options,
    Part,
    PublishedFigure,
    Range,
)
from plusone.methods._papers import (
    CHEN_TABLE_2,
    LASD_TABLE_2,
    XIE_TABLE_2,
    XIE_TABLE_2_RESNET,
    ZHOU,
    ZHOU_TABLE,
)
from plusone.methods._pointwise import pointwise
from plusone.methods._tables import columns_of, rows_of, set_columns
from plusone.types import Batch, Clock, Outputs, TrainLabels

BLOCK = 16  # classes that are looked at together
NEVER = 1_000_000  # an epoch that does not come


@dataclass(frozen=True)
class EntropyOptions(Options):
    """`em`: weight of the entropy; published: VOC 0.2, COCO and NUS 0.1 (the default), CUB 0.01."""

    alpha: float = 0.1


@dataclass(frozen=True)
class EmAplOptions(Options):
    """VOC's published settings; COCO 0.1, 0.9, 5; NUS 0.1, 0.2, 4; CUB 0.01, 0.4, 3."""

    alpha: float = 0.2
    beta: float = 0.02
    warmup: int = 5
    theta: float = 0.9

    def remarks(self, epochs: Sequence[int]) -> tuple[str, ...]:
        """Soft labels need an epoch after the warm-up."""
        if max(epochs) > self.warmup:
            return ()
        return (
            f"em_apl makes soft labels after {self.warmup} epochs (warmup), and no stage has more "
            f"than {max(epochs)}: this is em with its alpha; train longer or lower warmup",
        )


@dataclass(frozen=True)
class EntropyMinimizationOptions(Options):
    """`entmin`: `em` with its sign turned; `negatives` adds the assumed negatives' cost."""

    alpha: float = 0.1
    negatives: bool = False


class EmApl(Method[EmAplOptions]):
    """Soft negative labels in a buffer, indexed by item."""

    per_item = ("soft",)

    def __init__(self, labels: TrainLabels, options: EmAplOptions) -> None:
        super().__init__(labels, options)
        self.soft: Tensor
        self.register_buffer("soft", torch.full((labels.n_items, labels.n_classes), -1.0))

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, z, y = self.options, outs[0].logits, batch.observed
        soft = rows_of(self.soft, batch.index)
        return {"loss": reduce(entropy_with_pseudo_labels(z, y, soft, alpha=o.alpha, beta=o.beta))}

    def after_epoch(self, clock: Clock, predict: Callable[[], Tensor]) -> None:
        done, o = clock.epoch + 1, self.options
        if done < o.warmup or done >= clock.epochs:
            return
        unseen = torch.from_numpy(self.labels.observed.per_class(0))
        counts = (unseen * (o.theta / (clock.epochs - o.warmup)) + 1e-9).long().tolist()
        probabilities = self.probabilities(predict()).to(self.soft.device)
        classes = torch.arange(self.labels.n_classes)
        for block in torch.split(classes, BLOCK):  # [N, L] is held as little as possible
            part = slice(int(block[0]), int(block[-1]) + 1)
            soft = columns_of(self.soft, part)
            free = (soft < 0) & (self._seen(part).to(soft.device) == 0)
            still = torch.where(free, probabilities[:, part], torch.inf)
            for column, p in enumerate(still.t().contiguous()):
                left = int(torch.isfinite(p).sum())
                rows = torch.topk(p, min(counts[part.start + column], left), largest=False).indices
                soft[rows, column] = p[rows]
            set_columns(self.soft, soft, part)

    def _seen(self, part: slice) -> Tensor:
        """States of all items in some classes next to each other, int8 `[N, classes]`."""
        observed = self.labels.observed
        own = (observed.indices >= part.start) & (observed.indices < part.stop)
        states = torch.full((len(observed), part.stop - part.start), observed.default).char()
        rows = torch.from_numpy(observed.row_of_entry()[own])
        states[rows, torch.from_numpy(observed.indices[own]).long() - part.start] = (
            torch.from_numpy(observed.values[own])
        )
        return states


INFOS = (
    MethodInfo(
        name="em",
        build=pointwise(entropy_maximization),
        options=EntropyOptions,
        paper=ZHOU,
        year=2022,
        summary="unobserved labels are unknown: keep their entropy high",
        small_rate=True,
        grid=({"alpha": 0.05}, {"alpha": 0.2}),
        search_space={"alpha": Range(0.005, 0.5, log=True)},
        published=(
            PublishedFigure("finetune", ZHOU_TABLE, 89.09, 70.70, 47.15, 20.85),
            PublishedFigure("finetune", LASD_TABLE_2, 89.09, 70.70, 47.15, 20.85),
            PublishedFigure("finetune", CHEN_TABLE_2, 88.67, 70.64, 47.25, 20.69),
            PublishedFigure("finetune", XIE_TABLE_2_RESNET, 89.1, 70.7, 47.2, 20.9),
            PublishedFigure("labelwise", XIE_TABLE_2, 89.2, 73.2, 48.7, 22.2),
        ),
    ),
    MethodInfo(
        name="em_apl",
        title="EM+APL",
        build=EmApl,
        options=EmAplOptions,
        paper=ZHOU,
        year=2022,
        summary="em, and the lowest predictions of each class become soft negatives",
        small_rate=True,
        alone="it remembers soft labels of its own",
        grid=({"alpha": 0.1, "beta": 0.4}, {"alpha": 0.1, "beta": 0.9}),
        search_space={
            "alpha": Range(0.005, 0.5, log=True),
            "beta": Range(0.01, 1.0, log=True),
            "theta": Range(0.5, 0.99),
        },
        ablation=(
            Part("none: AN", method="an"),
            Part("EM", {"warmup": NEVER}),
            Part("APL", {"alpha": 0.0}),
            Part("EM + APL"),
        ),
        published=(
            PublishedFigure("finetune", ZHOU_TABLE, 89.19, 70.87, 47.59, 21.84),
            PublishedFigure("finetune", LASD_TABLE_2, 89.19, 70.87, 47.59, 21.84),
            PublishedFigure("finetune", CHEN_TABLE_2, 89.19, 70.87, 47.78, 21.20),
            PublishedFigure("finetune", XIE_TABLE_2_RESNET, 89.2, 70.9, 47.6, 21.8),
            PublishedFigure("labelwise", XIE_TABLE_2, 89.2, 73.1, 48.6, 23.6),
        ),
        quick={"warmup": 1},
    ),
    MethodInfo(
        name="entmin",
        title="EntMin",
        build=pointwise(entropy_minimization),
        options=EntropyMinimizationOptions,
        paper=ZHOU,
        year=2022,
        summary="the opposite of em; published as a failure, kept as one",
        # It drives unobserved labels to 1, so that none would weigh anything by its probability.
        defaults={"seen_negatives": "full"},
        grid=({"alpha": 0.01}, {"negatives": True}),
        search_space={"alpha": Range(0.001, 0.5, log=True), "negatives": Choice((False, True))},
        published=(PublishedFigure("finetune", ZHOU_TABLE, 53.16, 32.52, 19.38, 13.08),),
    ),
)
