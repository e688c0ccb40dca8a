"""SPLC: from the second epoch on, confident unobserved labels are treated as positives.

Zhang et al. 2021, Simple and Robust Loss Design for Multi-Label Learning with Missing Labels,
https://arxiv.org/abs/2112.07368, with its focal margin loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from plusone.losses import self_corrected
from plusone.methods.base import Options
from plusone.methods.itemwise import Itemwise
from plusone.types import Clock


@dataclass(frozen=True)
class SplcOptions(Options):
    """Threshold, margin and focusing of the released program."""

    tau: float = 0.6
    margin: float = 1.0
    gamma: float = 2.0


class Splc(Itemwise):
    """Corrects while computing the loss; remembers nothing."""

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        o = self.options
        return self_corrected(
            logits,
            *known,
            tau=o.tau,
            margin=o.margin,
            gamma=o.gamma,
            correct=clock.epoch > 0,
        )
