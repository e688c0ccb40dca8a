"""LL-R, LL-Ct, LL-Cp: the largest losses among assumed negatives are probably mistakes.

Kim et al. 2022, Large Loss Matters in Weakly Supervised Multi-Label Classification, CVPR,
https://arxiv.org/abs/2206.03740. The first epoch is plain `an`. After it a share of the batch's
labels, those unobserved ones with the largest losses, is dropped (R), charged as positives for
this step (Ct), or charged as positives for good (Cp). The share is epoch x delta_rel per cent for
R and Ct, delta_rel per cent for Cp.

Deviation: the released program writes Cp's corrections into the observed labels; here they are a
buffer of the method's own, `[N, L]` booleans, and the observed labels never change.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.device import CPU
from plusone.losses import large_loss, large_losses, reduce
from plusone.methods.base import (
    Method,
    MethodInfo,
    Options,
    PublishedFigure,
    Range,
    rows_of,
    set_rows,
)
from plusone.methods.papers import CHEN_TABLE_2, KIM, LASD_TABLE_2
from plusone.types import Batch, Clock, Outputs, TrainLabels


@dataclass(frozen=True)
class LargeLossOptions(Options):
    """delta_rel in per cent. 0.2 is ours; `recipes/` have those of the authors' later program."""

    delta_rel: float = 0.2


class LargeLossRejection(Method[LargeLossOptions]):
    """LL-R."""

    rule = "reject"

    def share(self, clock: Clock) -> float:
        """Share of a batch's labels that is affected in an epoch."""
        return min(clock.epoch * self.options.delta_rel / 100, 1.0)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        z, y = outs[0].logits, batch.observed
        return {"loss": reduce(large_loss(z, y, share=self.share(clock), rule=self.rule))}


class LargeLossTemporary(LargeLossRejection):
    """LL-Ct."""

    rule = "correct"


class LargeLossPermanent(Method[LargeLossOptions]):
    """LL-Cp."""

    per_item = ("corrected",)

    def __init__(self, labels: TrainLabels, options: LargeLossOptions) -> None:
        super().__init__(labels, options)
        self.corrected: Tensor
        empty = torch.zeros(labels.n_items, labels.n_classes, dtype=torch.bool)
        self.register_buffer("corrected", empty)

    def share(self, clock: Clock) -> float:
        """Share of a batch's labels that is corrected at each step of an epoch."""
        return min(self.options.delta_rel / 100, 1.0) if clock.epoch else 0.0

    def corrected_labels(self, batch: Batch) -> Tensor:
        """The observed labels with the corrections so far, `[B, L]`."""
        return torch.where(rows_of(self.corrected, batch.index), 1.0, batch.observed)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        z, y = outs[0].logits, self.corrected_labels(batch)
        return {"loss": reduce(large_loss(z, y, share=self.share(clock), rule="correct"))}

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        if share := self.share(clock):
            marked = large_losses(outs[0].logits, self.corrected_labels(batch), share=share)
            before = rows_of(self.corrected, batch.index)
            set_rows(self.corrected, batch.index, before | marked)

    def estimates(self, rows: Tensor | None = None) -> Tensor:
        seen = torch.from_numpy(self.labels.observed.dense(rows) == 1)
        corrected = self.corrected if rows is None else self.corrected[rows]
        return (corrected.to(CPU) | seen).float()


INFOS = (
    MethodInfo(
        name="ll_r",
        build=LargeLossRejection,
        options=LargeLossOptions,
        paper=KIM,
        year=2022,
        summary="assume negative, the largest losses of unobserved labels are dropped",
        grid=({"delta_rel": 0.5}, {"delta_rel": 1.0}),
        search_space={"delta_rel": Range(0.02, 2.0, log=True)},
        published=(
            PublishedFigure("finetune", CHEN_TABLE_2, 89.15, 71.77, 48.05, 19.00),
            PublishedFigure("finetune", LASD_TABLE_2, 89.23, 71.02, 47.44, 19.52),
        ),
        quick={"delta_rel": 5.0},
    ),
    MethodInfo(
        name="ll_ct",
        build=LargeLossTemporary,
        options=LargeLossOptions,
        paper=KIM,
        year=2022,
        summary="assume negative, the largest losses are charged as positives for this step",
        grid=({"delta_rel": 0.05}, {"delta_rel": 0.5}),
        search_space={"delta_rel": Range(0.02, 2.0, log=True)},
        published=(
            PublishedFigure("finetune", CHEN_TABLE_2, 88.97, 71.20, 48.00, 19.31),
            PublishedFigure("finetune", LASD_TABLE_2, 89.06, 70.51, 48.04, 20.43),
        ),
        quick={"delta_rel": 5.0},
    ),
    MethodInfo(
        name="ll_cp",
        build=LargeLossPermanent,
        options=LargeLossOptions,
        paper=KIM,
        year=2022,
        summary="assume negative, the largest losses are charged as positives for good",
        alone="it remembers corrections of its own",
        grid=({"delta_rel": 0.05}, {"delta_rel": 0.5}),
        search_space={"delta_rel": Range(0.02, 2.0, log=True)},
        published=(
            PublishedFigure("finetune", CHEN_TABLE_2, 88.62, 70.84, 47.93, 19.01),
            PublishedFigure("finetune", LASD_TABLE_2, 88.40, 70.74, 48.30, 20.14),
        ),
        quick={"delta_rel": 2.0},
    ),
)
