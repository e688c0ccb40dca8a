"""nnPU: positive-unlabelled learning with a known class prior, kept from being negative.

Kiryo, Niu, du Plessis and Sugiyama 2017, Positive-Unlabeled Learning with Non-Negative Risk
Estimator, NeurIPS, https://arxiv.org/abs/1703.00593. Each class is a problem of its own. With its
prior pi, the mean over its positives E+ and the mean over all items E, the risk of Eq. 6 is

    pi E+[-log p]  +  max(0, r),        r = E[-log(1 - p)] - pi E+[-log(1 - p)]

Unlabelled items hold pi positives each, whose cost as negatives is taken back; the maximum keeps a
flexible model from making that part negative. Algorithm 1: where r is below -beta, the step is that
of -gamma r alone. The loss is the mean over classes.

Deviations: the paper samples positives and unlabelled items separately, and one class. Here both
come from the same batch of B items, all of which count as unlabelled; E+ is the sum over seen
positives of the batch, divided by B times the share of items in which the class was seen, so that
each batch is an unbiased estimate however few positives it has. With pi equal to that share (k = 1)
and r not negative, it is `an`. The prior is the recipe's `class_priors`, else k times the share of
seen labels, which supposes picks at random. A seen negative costs -log(1 - p).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.losses._logits import log_probabilities
from plusone.methods._base import Method, MethodInfo, Options, Range
from plusone.types import Batch, Clock, Outputs, TrainLabels


@dataclass(frozen=True)
class NnpuOptions(Options):
    """Options of `nnpu`.

    Args:
        beta: How negative r may become before the step is that of -gamma r.
        gamma: How much of such a step is taken.
    """

    beta: float = 0.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if self.beta < 0 or not 0 <= self.gamma <= 1:
            raise ValueError(f"need beta >= 0 and 0 <= gamma <= 1, got {self.beta}, {self.gamma}")


class Nnpu(Method[NnpuOptions]):
    """The non-negative risk of every class."""

    def __init__(self, labels: TrainLabels, options: NnpuOptions) -> None:
        super().__init__(labels, options)
        share = torch.from_numpy(labels.observed.per_class(1)).float() / max(labels.n_items, 1)
        priors = share * (labels.expected_positives or 1.0)
        if labels.class_priors is not None:
            priors = torch.tensor(labels.class_priors)
        weight = priors.clamp(max=1.0) / share.clamp(min=1e-12)
        self.register_buffer("weight", weight, persistent=False)
        self.weight: Tensor

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        log_p, log_not_p = log_probabilities(outs[0].logits.float())
        y = batch.observed.to(log_p.dtype)
        seen, absent = (y > 0).to(y.dtype), (-y).relu()
        positive = (seen * -log_p).mean(-2) * self.weight
        r = (-log_not_p * (1 - absent)).mean(-2) - (seen * -log_not_p).mean(-2) * self.weight
        o = self.options
        risk = torch.where(r < -o.beta, -o.gamma * r, positive + r)
        return {"loss": (risk + (absent * -log_not_p).mean(-2)).mean(-1)}


INFO = MethodInfo(
    name="nnpu",
    title="nnPU",
    build=Nnpu,
    options=NnpuOptions,
    paper="Kiryo et al., Positive-Unlabeled Learning with Non-Negative Risk Estimator, NeurIPS",
    year=2017,
    summary="positive-unlabelled risk of each class by its prior, kept from being negative",
    needs_k=True,
    uses_priors=True,
    alone="it keeps a weight for each class",
    no_curve="its loss of a label depends on the other items of the batch",
    grid=({"gamma": 0.5},),
    search_space={"beta": Range(0.0, 0.1), "gamma": Range(0.1, 1.0)},
)
