"""GR with khat and v learned instead of scheduled: the ablation that the paper found worse.

Chen et al. 2024, Boosting Single Positive Multi-label Classification with Generalized Robust
Loss, IJCAI, section 3.3 ("The update of beta") and the last row of Table 3.

w, b (beta) and mu, sigma (alpha) are one number per class each and start where the paper's
schedules start. p is stopped inside khat and v, so the model is trained as in GR; the loss of an
unobserved label, v (khat L2 + (1 - khat) L3), reaches w and b through khat and mu and sigma
through v.

The row of Table 3 learns both; `learn_v=False` learns khat alone and leaves mu and sigma on GR's
schedule. Ours, because the paper does not say: the recipe's learning rate, and sigma not below
0.01, as v has no meaning at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from plusone.losses.robust import Parameter
from plusone.methods.gr import Gr, RobustOptions
from plusone.types import Clock, Stage, TrainLabels

SIGMA_FLOOR = 0.01


@dataclass(frozen=True)
class GrLearnedOptions(RobustOptions):
    """Starts of what is learned; mu and sigma are ends of a schedule, used if learn_v is false."""

    learn_v: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learn_v and (self.mu, self.sigma) != (type(self).mu, type(self).sigma):
            raise ValueError("mu and sigma end a schedule: to use it, set learn_v to false")


class GrLearned(Gr):
    """The learned numbers are parameters `[L]`: `learned_w`, `learned_b` and so on."""

    fixed = ("w_start", "b_start", "mu_start", "sigma_start")

    def __init__(self, labels: TrainLabels, options: GrLearnedOptions) -> None:
        super().__init__(labels, options)

        def per_class(value: float) -> nn.Parameter:
            return nn.Parameter(torch.full((labels.n_classes,), float(value)))

        self.learned_w, self.learned_b = per_class(options.w_start), per_class(options.b_start)
        self.learned_mu = per_class(options.mu_start)
        self.learned_sigma = per_class(options.sigma_start)

    def begin_stage(self, stage: Stage) -> None:
        super().begin_stage(stage)
        # Before the optimizer is made: what is not learned must not be in it.
        self.learned_mu.requires_grad_(self.options.learn_v)
        self.learned_sigma.requires_grad_(self.options.learn_v)

    def schedule(self, clock: Clock) -> Mapping[str, Parameter]:
        o = self.options
        found: dict[str, Parameter] = {"w": self.learned_w, "b": self.learned_b}
        if not o.learn_v:
            return found | self.scheduled_weight(clock)
        return found | {
            "mu": self.learned_mu,
            "sigma": self.learned_sigma.clamp(min=SIGMA_FLOOR),
        }
