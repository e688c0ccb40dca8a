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
from functools import partial

import torch
from torch import Tensor

from plusone.losses import large_loss_from, large_loss_level, large_losses, reduced
from plusone.methods.base import Method, Options
from plusone.types import Batch, Clock, Outputs, TrainLabels


@dataclass(frozen=True)
class LargeLossOptions(Options):
    """delta_rel in per cent. 0.2 is ours: the sources we have do not state the published value."""

    delta_rel: float = 0.2


class LargeLossRejection(Method):
    """LL-R."""

    rule = "reject"

    def share(self, clock: Clock) -> float:
        """Share of a batch's labels that is affected in an epoch."""
        return float(clock.epoch * self.options.delta_rel / 100)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        share = min(self.share(clock), 1.0)
        z, y = outs[0].logits, self.labels_of(batch)
        level = large_loss_level(z, y, share=share)
        return {"loss": reduced(partial(large_loss_from, level=level, rule=self.rule), z, y)}

    def labels_of(self, batch: Batch) -> Tensor:
        """The labels the loss starts from."""
        return batch.observed


class LargeLossTemporary(LargeLossRejection):
    """LL-Ct."""

    rule = "correct"


class LargeLossPermanent(LargeLossTemporary):
    """LL-Cp."""

    def __init__(self, labels: TrainLabels, options: Options) -> None:
        super().__init__(labels, options)
        self.corrected: Tensor
        empty = torch.zeros(labels.n_items, labels.n_classes, dtype=torch.bool)
        self.register_buffer("corrected", empty)

    def share(self, clock: Clock) -> float:
        return float(self.options.delta_rel / 100) if clock.epoch else 0.0

    def labels_of(self, batch: Batch) -> Tensor:
        return torch.where(self.corrected[batch.index], 1.0, batch.observed)

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        share = self.share(clock)
        if share:
            marked = large_losses(outs[0].logits, self.labels_of(batch), share=share)
            self.corrected[batch.index] |= marked

    def estimates(self, rows: Tensor | None = None) -> Tensor:
        seen = torch.from_numpy(self.labels.observed.dense(rows) == 1)
        corrected = self.corrected if rows is None else self.corrected[rows]
        return (corrected | seen).float()
