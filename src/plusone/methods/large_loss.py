"""LL-R, LL-Ct, LL-Cp: the largest losses among assumed negatives are probably mistakes.

Kim et al. 2022, Large Loss Matters in Weakly Supervised Multi-Label Classification, CVPR,
https://arxiv.org/abs/2206.03740. The first epoch is plain `an`. After it a share of the batch's
labels, those unobserved ones with the largest losses, is dropped (R), charged as positives for
this step (Ct), or charged as positives for good (Cp). The share is epoch x delta_rel per cent for
R and Ct, delta_rel per cent for Cp. The paper leaves delta_rel open; the defaults are those of the
authors' later program, BoostLU.

BoostLU: Kim et al. 2023, Bridging the Gap between Model Explanations in Partially Annotated
Multi-label Classification, CVPR, https://arxiv.org/abs/2304.01804. Positives that are taken for
negatives lower the positive entries of a model's class maps most. The option `boost` (the paper's
alpha, 5 there) multiplies them, in training and in prediction alike; the logits are the means of
the maps. It needs places: on feature vectors it would change no ranking and is rejected.

Deviations:

- The released program writes Cp's corrections into the observed labels; here they are a buffer of
  the method's own, `[N, L]` booleans, and the observed labels never change.
- The program of the first paper (LargeLossMatters) corrects for good only labels whose loss is
  above the k-th largest, k their number: none where k is 1, as on VOC with batches of 8. The
  program of BoostLU, and so ours, takes the k-th as well.
- Epochs are counted from 0 in each stage of a recipe, so that R and Ct begin each with small shares
  and the first epoch of every stage is plain `an`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.device import CPU
from plusone.errors import InputError
from plusone.losses import large_loss, large_losses, reduce
from plusone.methods._base import (
    Method,
    MethodInfo,
    Options,
    PublishedFigure,
    Range,
)
from plusone.methods._papers import BOOSTLU, CHEN_TABLE_2, KIM, LASD_TABLE_2
from plusone.methods._tables import rows_of, set_rows
from plusone.models.heads import Head, SpatialHead
from plusone.types import Batch, Clock, Outputs, TrainLabels


@dataclass(frozen=True)
class LargeLossOptions(Options):
    """delta_rel in per cent; boost: the factor of BoostLU, 5 in its paper, 1 for no class maps."""

    delta_rel: float = 0.2
    boost: float = 1.0

    def __post_init__(self) -> None:
        if not self.boost >= 1:
            raise ValueError(f"boost must be at least 1, got {self.boost}")

    @property
    def gives_maps(self) -> bool:
        return self.boost != 1


@dataclass(frozen=True)
class RejectionOptions(LargeLossOptions):
    """As `LargeLossOptions`, with the default of LL-R."""

    delta_rel: float = 0.5


@dataclass(frozen=True)
class PermanentOptions(LargeLossOptions):
    """As `LargeLossOptions`, with the default of LL-Cp."""

    delta_rel: float = 0.1


class LargeLoss(Method[LargeLossOptions]):
    """What the three have in common: a head with class maps, if they are boosted."""

    fixed = ("boost",)

    def make_head(self, dim: int) -> Head:
        boost = self.options.boost
        if boost == 1:
            return super().make_head(dim)
        if not self.labels.places:
            raise InputError(
                f"boost = {boost:g} needs class maps, and feature vectors have no places; train on "
                "images or tokens, or leave boost out"
            )
        return SpatialHead(dim, self.labels.n_classes, boost=boost)


class LargeLossRejection(LargeLoss):
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


class LargeLossPermanent(LargeLoss):
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
        return (rows_of(self.corrected, rows).to(CPU) | seen).float()


INFOS = (
    MethodInfo(
        name="ll_r",
        build=LargeLossRejection,
        options=RejectionOptions,
        paper=KIM,
        year=2022,
        summary="assume negative, the largest losses of unobserved labels are dropped",
        grid=({"delta_rel": 0.2}, {"delta_rel": 1.0}),
        search_space={"delta_rel": Range(0.02, 2.0, log=True)},
        published=(
            PublishedFigure("finetune", CHEN_TABLE_2, 89.15, 71.77, 48.05, 19.00),
            PublishedFigure("finetune", LASD_TABLE_2, 89.23, 71.02, 47.44, 19.52),
            PublishedFigure("finetune", BOOSTLU, 88.27, 70.70, 48.76, 19.56),
            PublishedFigure("finetune", BOOSTLU, 89.29, 72.89, 49.59, 19.80, {"boost": 5.0}),
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
            PublishedFigure("finetune", BOOSTLU, 87.79, 70.29, 48.08, 19.06),
            PublishedFigure("finetune", BOOSTLU, 88.61, 71.78, 48.37, 19.25, {"boost": 5.0}),
        ),
        quick={"delta_rel": 5.0},
    ),
    MethodInfo(
        name="ll_cp",
        build=LargeLossPermanent,
        options=PermanentOptions,
        paper=KIM,
        year=2022,
        summary="assume negative, the largest losses are charged as positives for good",
        alone="it remembers corrections of its own",
        grid=({"delta_rel": 0.2}, {"delta_rel": 0.5}),
        search_space={"delta_rel": Range(0.02, 2.0, log=True)},
        published=(
            PublishedFigure("finetune", CHEN_TABLE_2, 88.62, 70.84, 47.93, 19.01),
            PublishedFigure("finetune", LASD_TABLE_2, 88.40, 70.74, 48.30, 20.14),
            PublishedFigure("finetune", BOOSTLU, 87.44, 70.27, 47.92, 19.21),
            PublishedFigure("finetune", BOOSTLU, 87.81, 71.41, 48.61, 19.34, {"boost": 5.0}),
        ),
        quick={"delta_rel": 2.0},
    ),
)
