"""ROLE: the labels of every training item are estimated while the classifier learns.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR, section 5.4 and the
implementation notes of section 6.1.

The estimate is a parameter `[N, L]` with 10 times the learning rate. It starts uniform between
probabilities 0.4 and 0.6, a seen positive at 0.995 and a seen negative at 0.005. The EPR part
follows the released program ("released": seen labels divided by L, lambda 1), because the paper
leaves lambda open and its figures come from that program. As there, the dense Adam moves rows
outside the batch too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from plusone.errors import InputError
from plusone.losses import online_estimation
from plusone.methods.base import Method, Options
from plusone.seeds import generator
from plusone.types import Batch, Clock, Outputs, TrainLabels


@dataclass(frozen=True)
class RoleOptions(Options):
    """Weight of the count's penalty and the EPR variant."""

    lam: float = 1.0
    variant: str = "released"


class Role(Method):
    """Needs `expected_positives`; `estimates()` gives the recovered labels."""

    lr_mult = 10.0

    def __init__(self, labels: TrainLabels, options: Options) -> None:
        super().__init__(labels, options)
        if labels.expected_positives is None:
            raise InputError("the method role needs expected_positives")
        bound = _logit(0.6)
        shape = (labels.n_items, labels.n_classes)
        start = torch.empty(shape).uniform_(-bound, bound, generator=generator(labels.seed, "role"))
        observed = torch.from_numpy(labels.observed.dense())
        start[observed == 1] = _logit(0.995)
        start[observed == -1] = _logit(0.005)
        self.phi = nn.Parameter(start)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        k = self.labels.expected_positives
        assert k is not None
        phi, o = self.phi[batch.index], self.options
        return online_estimation(
            outs[0].logits, phi, batch.observed, k=k, lam=o.lam, variant=o.variant
        )

    def estimates(self) -> Tensor:
        return self.phi.detach().sigmoid()


def _logit(p: float) -> float:
    return math.log(p / (1 - p))
