"""WAN by sampling: at every visit one random unobserved label counts as a negative.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR, section 5.1. Its
expectation is `wan`.
"""

from __future__ import annotations

from torch import Tensor

from plusone.losses import reduce, sampled_negative
from plusone.methods.base import Method
from plusone.seeds import generator
from plusone.types import Batch, Clock, Outputs


class SampledNegative(Method):
    """The draw depends on the seed and the clock alone, so a step can be repeated."""

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        draw = generator(self.labels.seed, "negatives", clock.stage, clock.epoch, clock.step)
        table = sampled_negative(outs[0].logits, batch.observed, generator=draw)
        return {"loss": reduce(table)}
