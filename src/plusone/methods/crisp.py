"""CRISP: class priors estimated after every epoch, and the risk of positive-unlabelled learning.

Liu, Wang, Xu and Geng 2023, Can Class-Priors Help Single-Positive Multi-Label Learning?,
https://arxiv.org/abs/2309.13886. The first epochs are `an`. After every epoch the prior of each
class is estimated from the scores of all training items by best-bin estimation (BBE; Algorithm 1,
Eq. 2 and App. A.2; `plusone.probabilities.best_bin`), and from then on the loss is
`class_prior_risk` with these priors: the risk of Eq. 3 and 4 with the absolute loss, its second
part as an absolute value.

The recipe's `class_priors` replaces the estimates by fixed ones: those of this project ("estimate",
which models that one positive was picked), those of the training truth ("truth"), or given numbers.

What the paper leaves open, and how it is here:

- The length of the warm-up is not stated; ours is one epoch, of the first stage alone.
- In a batch the first mean is over its seen positives of a class, the second over all its items.
- `decay` compares a running mean of the predictions with the priors: means of small batches are
  noisy. 0, the default, is the batch alone.
- Left out: the last version of the paper shifts logits by a parameter lambda (Eq. 8 and 9), in a
  form that its text does not determine. There is no public program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.losses import assume_negative, class_prior_risk, reduce
from plusone.methods._base import (
    Choice,
    Method,
    MethodInfo,
    Options,
    Part,
    PublishedFigure,
    Range,
)
from plusone.methods._papers import LIU_TABLE_1
from plusone.probabilities.best_bin import best_bin_priors
from plusone.types import Batch, Clock, Outputs, TrainLabels


@dataclass(frozen=True)
class CrispOptions(Options):
    """delta, tau: of the estimate of the priors; warmup: epochs of `an`; decay: see above."""

    delta: float = 0.01
    tau: float = 0.01
    warmup: int = 1
    decay: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1 or self.tau < 0 or self.warmup < 0 or not 0 <= self.decay < 1:
            got = f"{self.delta}, {self.tau}, {self.warmup}, {self.decay}"
            raise ValueError(
                "need 0 < delta < 1, tau >= 0, warmup >= 0 and 0 <= decay < 1, got " + got
            )


class Crisp(Method[CrispOptions]):
    """Remembers the priors and a running mean of the predictions."""

    def __init__(self, labels: TrainLabels, options: CrispOptions) -> None:
        super().__init__(labels, options)
        self.priors: Tensor
        self.mean: Tensor
        shares = torch.from_numpy(labels.observed.per_class(1)) / max(labels.n_items, 1)
        given = labels.class_priors
        start = shares.float() if given is None else torch.tensor(given)
        self.register_buffer("priors", start)
        self.register_buffer("mean", start.clone())

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        z, y = outs[0].logits, batch.observed
        if clock.stage == 0 and clock.epoch < self.options.warmup:
            return {"warmup": reduce(assume_negative(z, y), "item")}
        mean = None if self.options.decay == 0 else self._new_mean(z)
        return class_prior_risk(z, y, priors=self.priors, mean=mean)

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        self.mean.copy_(self._new_mean(outs[0].logits))

    def after_epoch(self, clock: Clock, predict: Callable[[], Tensor]) -> None:
        if self.labels.class_priors is None:
            logits = predict()
            seen = torch.from_numpy(self.labels.observed.dense() == 1).to(logits.device)
            o = self.options
            self.priors.copy_(best_bin_priors(logits, seen, delta=o.delta, tau=o.tau))

    def _new_mean(self, z: Tensor) -> Tensor:
        return torch.lerp(torch.sigmoid(z.detach()).mean(-2), self.mean, self.options.decay)


INFO = MethodInfo(
    name="crisp",
    title="CRISP",
    build=Crisp,
    options=CrispOptions,
    paper="Liu et al., Can Class-Priors Help Single-Positive Multi-Label Learning?, arXiv",
    year=2023,
    summary="mean predictions equal class priors, estimated after every epoch (best bin, BBE)",
    uses_priors=True,
    alone="it estimates priors of its own",
    summed=True,
    grid=({"decay": 0.9}, {"warmup": 3}),
    search_space={"decay": Range(0.0, 0.99), "warmup": Choice((0, 1, 2, 3, 5))},
    ablation=(Part("none: AN", method="an"), Part("PU risk with estimated priors")),
    published=(PublishedFigure("finetune", LIU_TABLE_1, 89.820, 74.640, 49.996, 21.650),),
)
