"""SINR: assume negative with a weight of seen labels, and items without labels as negatives.

Cole et al. 2023, Spatial Implicit Neural Representations for Global-Scale Species Mapping, ICML,
https://arxiv.org/abs/2306.02564, by the formulas of its released program. A class is a species, an
item x a record of one species at a place, and x~ a random place without a record: here an item
without any seen label. With lp = -log p and ln = -log(1 - p),

    an_full   mean over classes of [positive_weight lp(x) if seen, else ln(x)] + mean of ln(x~)
    an_ssdl   for the seen class alone: lp(x) + ln(x~)            (same species, different location)

`entropy` is the variant of each that maximises entropy: minus the entropy of p instead of ln. (The
third loss of the paper, one random other class at the same place, is `wan_sampled`.)

Deviations: x~ are the items without labels of the same batch, and ln(x~) is their mean; a batch
without any has no such part. positive_weight is 2048 there, for 47,375 classes; with fewer
classes a smaller one may be better. A seen negative costs -log(1 - p). The paper's network takes
coordinates; here the model is whatever the recipe says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from plusone.losses._logits import log_probabilities
from plusone.methods._base import Choice, Method, MethodInfo, Options, Range
from plusone.types import Batch, Clock, Outputs

Loss = Literal["an_full", "an_ssdl"]


@dataclass(frozen=True)
class SinrOptions(Options):
    """Options of `sinr`.

    Args:
        loss: Which loss of the paper.
        positive_weight: Weight of a seen label in `an_full`.
        entropy: Whether the entropy of unobserved labels is maximised instead.
    """

    loss: Loss = "an_full"
    positive_weight: float = 2048.0
    entropy: bool = False

    def __post_init__(self) -> None:
        if self.loss not in get_args(Loss):
            raise ValueError(f"loss must be one of {', '.join(get_args(Loss))}, got {self.loss}")
        if not self.positive_weight > 0:
            raise ValueError(f"positive_weight must be above 0, got {self.positive_weight}")


class Sinr(Method[SinrOptions]):
    """Seen labels against all others, of the item and of items without labels."""

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        log_p, log_not_p = log_probabilities(outs[0].logits.float())
        y = batch.observed.to(log_p.dtype)
        seen, absent = (y > 0).to(y.dtype), (-y).relu()
        record = (y != 0).any(-1, keepdim=True).to(y.dtype)
        unobserved = -log_not_p
        if self.options.entropy:
            p = log_p.exp()
            unobserved = p * log_p + (1 - p) * log_not_p  # minus the entropy
        negative = torch.lerp(unobserved, -log_not_p, absent)
        records, places = record.sum((-2, -1)), (1 - record).sum((-2, -1))
        elsewhere = ((1 - record) * unobserved).sum(-2) / places.clamp(min=1)[..., None]
        if self.options.loss == "an_full":
            own = torch.lerp(negative, self.options.positive_weight * -log_p, seen)
            here = (record * own).sum((-2, -1)) / records.clamp(min=1) / y.shape[-1]
            return {"records": here, "elsewhere": elsewhere.mean(-1)}
        here = (seen * -log_p + absent * -log_not_p).sum((-2, -1)) / records.clamp(min=1)
        pairs = (seen * elsewhere[..., None, :]).sum((-2, -1)) / records.clamp(min=1)
        return {"records": here, "elsewhere": pairs}


INFO = MethodInfo(
    name="sinr",
    build=Sinr,
    options=SinrOptions,
    paper="Cole et al., Spatial Implicit Neural Representations, ICML",
    year=2023,
    summary="assume negative with a large weight of seen labels; unlabelled items are negatives",
    no_curve="its loss depends on which items of the batch have labels",
    grid=({"positive_weight": 32.0}, {"loss": "an_ssdl"}),
    search_space={
        "loss": Choice(get_args(Loss)),
        "positive_weight": Range(1.0, 4096.0, log=True),
        "entropy": Choice((False, True)),
    },
)
