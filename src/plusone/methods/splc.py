"""SPLC: from the second epoch on, confident unobserved labels are treated as positives.

Zhang et al. 2021, Simple and Robust Loss Design for Multi-Label Learning with Missing Labels,
https://arxiv.org/abs/2112.07368, with its focal margin loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from plusone.losses import reduce, self_corrected
from plusone.methods._base import Method, MethodInfo, Options, Part, PublishedFigure, Range
from plusone.methods._papers import CHEN_TABLE_2, ZHANG
from plusone.types import Batch, Clock, Outputs


@dataclass(frozen=True)
class SplcOptions(Options):
    """Threshold, margin and focusing of the released program."""

    tau: float = 0.6
    margin: float = 1.0
    gamma: float = 2.0


class Splc(Method[SplcOptions]):
    """Corrects while computing the loss; remembers nothing."""

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, z, y = self.options, outs[0].logits, batch.observed
        correct = clock.epoch > 0
        losses = self_corrected(z, y, tau=o.tau, margin=o.margin, gamma=o.gamma, correct=correct)
        return {"loss": reduce(losses)}


INFO = MethodInfo(
    name="splc",
    build=Splc,
    options=SplcOptions,
    paper=ZHANG,
    year=2021,
    summary="confident unobserved labels count as positives from the second epoch on",
    small_rate=True,
    grid=({"tau": 0.5}, {"tau": 0.8}),
    search_space={"tau": Range(0.3, 0.95), "margin": Range(0.0, 2.0), "gamma": Range(0.0, 4.0)},
    ablation=(
        Part("focal loss", {"tau": 1.0, "margin": 0.0}),
        Part("focal loss + margin", {"tau": 1.0}),
        Part("focal loss + correction", {"margin": 0.0}),
        Part("focal loss + margin + correction"),
    ),
    published=(PublishedFigure("finetune", CHEN_TABLE_2, 88.43, 71.56, 47.24, 18.61),),
)
