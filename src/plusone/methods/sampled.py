"""WAN by sampling: at every visit one random unobserved label counts as a negative.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR, section 5.1. Its
expectation is `wan`.
"""

from __future__ import annotations

from torch import Tensor

from plusone.losses import observed_bce, sample_negative
from plusone.methods.itemwise import Itemwise
from plusone.seeds import generator
from plusone.types import Batch, Clock


class SampledNegative(Itemwise):
    """The draw depends on the seed and the clock alone, so a step can be repeated."""

    def known(self, batch: Batch, clock: Clock) -> tuple[Tensor, ...]:
        draw = generator(self.labels.seed, "negatives", clock.stage, clock.epoch, clock.step)
        return (sample_negative(batch.observed, generator=draw),)

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        return observed_bce(logits, *known)
