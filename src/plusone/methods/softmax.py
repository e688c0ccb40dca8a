"""Softmax: treat the one seen label as the class of a multi-class problem.

No paper; the baseline everybody tries first. A class's score is its softmax probability: the raw
logit, compared between items, ranks far worse.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses import reduce, softmax_cross_entropy
from plusone.methods._base import Method, MethodInfo, Options
from plusone.types import Batch, Clock, Outputs


class Softmax(Method[Options]):
    """Cross-entropy of the seen label, mean over items."""

    def log_odds(self, logits: Tensor) -> Tensor:
        # log p - log(1 - p); 1 - p of the largest is a sum over the others, where p rounds to 1.
        least = torch.finfo(logits.dtype).min  # a finite stand-in for minus infinity
        largest = logits.argmax(dim=-1, keepdim=True)
        rest = logits.scatter(-1, largest, least).logsumexp(dim=-1, keepdim=True)
        log_p = torch.log_softmax(logits, dim=-1).scatter(-1, largest, least)
        others = log_p - torch.log1p(-log_p.exp())
        return others.scatter(-1, largest, logits.gather(-1, largest) - rest)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        losses = softmax_cross_entropy(outs[0].logits, batch.observed)
        return {"loss": reduce(losses, "item")}


INFO = MethodInfo(
    name="softmax",
    title="Softmax",
    build=Softmax,
    options=Options,
    paper="no paper: the multi-class baseline",
    year=2021,
    summary="multi-class cross-entropy on the seen label",
    small_rate=True,
    no_curve="its probabilities are those of a softmax over all classes",
)
