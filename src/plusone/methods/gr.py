"""GR: a robust loss whose trust in the model's own guesses grows over the epochs.

Chen et al. 2024, Boosting Single Positive Multi-label Classification with Generalized Robust
Loss, IJCAI, Eq. 4-14.

The paper moves w, b, mu and sigma along a line from their start to their end (Eq. 9, 10, 12, 13).
Here ("paper") all four have their start in the first epoch and their end in the last. In the
released program w and b lag one epoch behind mu and sigma: of T epochs, epoch t (from 0) has w, b
at t / T and mu, sigma at (t + 1) / T; `variant="released"` does that, and charges seen positives
-log p. The released program also gives the linear layer 10 times the learning rate: set
`head_lr_mult` in the recipe for that.

The paper keeps q1, q2, q3 constant and names it a limitation that they do not move (section 5).
`q2_end` and `q3_end` let q2 and q3 move along the same line; that is ours and off by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from plusone.losses import generalized_robust
from plusone.losses.robust import Parameter
from plusone.methods.base import Options
from plusone.methods.itemwise import Itemwise
from plusone.schedules import linear
from plusone.types import Clock


@dataclass(frozen=True)
class RobustOptions(Options):
    """What `gr` and `gr_learned` share: starts, ends of mu and sigma, robustness."""

    mu: float = 0.8
    sigma: float = 0.5
    w_start: float = 0.0
    b_start: float = -2.0
    mu_start: float = 0.5
    sigma_start: float = 2.0
    q1: float = 0.01
    q2: float = 0.01
    q3: float = 1.0
    q2_end: float | None = None
    q3_end: float | None = None
    variant: str = "paper"

    def __post_init__(self) -> None:
        if min(self.sigma, self.sigma_start) <= 0:
            got = f"{self.sigma}, {self.sigma_start}"
            raise ValueError(f"sigma and sigma_start must be positive, got {got}")


@dataclass(frozen=True)
class GrOptions(RobustOptions):
    """Ends of the schedules as published for VOC; COCO, NUS and CUB use w 10, b -8 (CUB q3 1.5)."""

    w: float = 2.0
    b: float = -2.0


class Gr(Itemwise):
    """Schedules for w, b, mu, sigma; the rest is `plusone.losses.generalized_robust`."""

    def schedule(self, clock: Clock) -> Mapping[str, Parameter]:
        """w, b, mu and sigma in an epoch."""
        o = self.options
        at = clock.epoch / clock.epochs if o.variant == "released" else _line(clock)
        trust = {"w": linear(at, o.w_start, o.w), "b": linear(at, o.b_start, o.b)}
        return trust | self.scheduled_weight(clock)

    def scheduled_weight(self, clock: Clock) -> dict[str, float]:
        """The part of the schedule that shapes v: mu and sigma."""
        o = self.options
        at = (clock.epoch + 1) / clock.epochs if o.variant == "released" else _line(clock)
        return {
            "mu": linear(at, o.mu_start, o.mu),
            "sigma": linear(at, o.sigma_start, o.sigma),
        }

    def robustness(self, clock: Clock) -> dict[str, float]:
        """q1, q2 and q3 in an epoch; an end that is None leaves its q where it is."""
        o, at = self.options, _line(clock)
        if min(o.q2_end or 0.0, o.q3_end or 0.0) < 0:
            raise ValueError(f"q2_end and q3_end must not be negative: {o.q2_end}, {o.q3_end}")
        return {
            "q1": o.q1,
            "q2": o.q2 if o.q2_end is None else linear(at, o.q2, o.q2_end),
            "q3": o.q3 if o.q3_end is None else linear(at, o.q3, o.q3_end),
        }

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        at = self.schedule(clock)
        return generalized_robust(
            logits,
            known[0],
            w=at["w"],
            b=at["b"],
            mu=at["mu"],
            sigma=at["sigma"],
            **self.robustness(clock),
            variant=self.options.variant,
        )


def _line(clock: Clock) -> float:
    """0 in the first epoch of a stage, 1 in its last."""
    return clock.epoch / max(clock.epochs - 1, 1)
