"""GR: a robust loss whose trust in the model's own guesses grows over the epochs.

Chen et al. 2024, Boosting Single Positive Multi-label Classification with Generalized Robust
Loss, IJCAI, Eq. 4-14.

The paper moves w, b, mu and sigma along a line from their start to their end (Eq. 9, 10, 12, 13).
Here ("paper") all four have their start in the first epoch and their end in the last. In the
released program w and b lag one epoch behind mu and sigma: of T epochs, epoch t (from 0) has w, b
at t / T and mu, sigma at (t + 1) / T; `variant="released"` does that, and charges seen positives
-log p. The released program also gives the linear layer 10 times the learning rate: set
`head_lr_mult` in the recipe for that.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from plusone.losses import generalized_robust, reduce
from plusone.methods.base import Method, Options
from plusone.schedules import linear
from plusone.types import Batch, Clock, Outputs


@dataclass(frozen=True)
class GrOptions(Options):
    """Ends of the schedules as published for VOC; COCO, NUS and CUB use w 10, b -8 (CUB q3 1.5)."""

    w: float = 2.0
    b: float = -2.0
    mu: float = 0.8
    sigma: float = 0.5
    w_start: float = 0.0
    b_start: float = -2.0
    mu_start: float = 0.5
    sigma_start: float = 2.0
    q1: float = 0.01
    q2: float = 0.01
    q3: float = 1.0
    variant: str = "paper"


class Gr(Method):
    """Schedules for w, b, mu, sigma; the rest is `plusone.losses.generalized_robust`."""

    def schedule(self, clock: Clock) -> dict[str, float]:
        """w, b, mu and sigma in an epoch."""
        o = self.options
        if o.variant == "released":
            early, late = clock.epoch / clock.epochs, (clock.epoch + 1) / clock.epochs
        else:
            early = late = clock.epoch / max(clock.epochs - 1, 1)
        return {
            "w": linear(early, o.w_start, o.w),
            "b": linear(early, o.b_start, o.b),
            "mu": linear(late, o.mu_start, o.mu),
            "sigma": linear(late, o.sigma_start, o.sigma),
        }

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o = self.options
        table = generalized_robust(
            outs[0].logits,
            batch.observed,
            **self.schedule(clock),
            q1=o.q1,
            q2=o.q2,
            q3=o.q3,
            variant=o.variant,
        )
        return {"loss": reduce(table)}
