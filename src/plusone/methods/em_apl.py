"""EM + APL: the lowest predictions of each class become soft negatives, a few more every epoch.

Zhou et al. 2022, Acknowledging the Unknown for Multi-label Learning with Single Positive Labels,
ECCV, https://arxiv.org/abs/2203.16219, Algorithm 1, Eq. 6-8.

After `warmup` epochs, at the end of every epoch but the last: of each class's still unobserved
labels, those with the lowest probability get that probability as a soft label. Their number is
theta / (T - warmup) of the class's initially unobserved labels, rounded down. They accumulate and
are never revised.

Deviation: the released program writes them as negative numbers into the observed labels; here they
are a buffer of the method's own, float32 `[N, L]`, -1 where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.losses import entropy_with_pseudo_labels
from plusone.methods.base import Options
from plusone.methods.itemwise import Itemwise
from plusone.types import Batch, Clock, TrainLabels

BLOCK = 16  # classes that are looked at together


@dataclass(frozen=True)
class EmAplOptions(Options):
    """VOC's published settings; COCO 0.1, 0.9, 5; NUS 0.1, 0.2, 4; CUB 0.01, 0.4, 3."""

    alpha: float = 0.2
    beta: float = 0.02
    warmup: int = 5
    theta: float = 0.9


class EmApl(Itemwise):
    """Soft negative labels in a buffer, found by the items' index."""

    def __init__(self, labels: TrainLabels, options: EmAplOptions) -> None:
        super().__init__(labels, options)
        self.soft: Tensor
        self.register_buffer("soft", torch.full((labels.n_items, labels.n_classes), -1.0))

    def known(self, batch: Batch, clock: Clock) -> tuple[Tensor, ...]:
        return batch.observed, self.soft[batch.index]

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        o = self.options
        return entropy_with_pseudo_labels(logits, *known, alpha=o.alpha, beta=o.beta)

    def after_epoch(self, clock: Clock, predict: Callable[[], Tensor]) -> None:
        done, o = clock.epoch + 1, self.options
        if done < o.warmup or done >= clock.epochs:
            return
        unseen = torch.from_numpy(self.labels.observed.per_class(0))
        counts = (unseen * (o.theta / (clock.epochs - o.warmup)) + 1e-9).long().tolist()
        probabilities = self.probabilities(predict())
        classes = torch.arange(self.labels.n_classes)
        for block in torch.split(classes, BLOCK):  # [N, L] is held as little as possible
            part = slice(int(block[0]), int(block[-1]) + 1)
            free = (self.soft[:, part] < 0) & (self._seen(part) == 0)
            still = torch.where(free, probabilities[:, part], torch.inf)
            for column, p in zip(block.tolist(), still.t().contiguous(), strict=True):
                left = int(torch.isfinite(p).sum())
                rows = torch.topk(p, min(counts[column], left), largest=False).indices
                self.soft[rows, column] = p[rows]

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
