"""GR: a robust loss whose trust in the model's own guesses grows over the epochs.

Chen et al. 2024, Boosting Single Positive Multi-label Classification with Generalized Robust
Loss, IJCAI, Eq. 4-14.

The paper moves w, b, mu and sigma along a line from their start to their end (Eq. 9, 10, 12, 13).
Here ("paper") all four have their start in the first epoch and their end in the last: of T epochs,
epoch t (from 0) has t / (T - 1). With `reach_end=False` it has t / T, as Eq. 9 is written, with
which the last epoch, T - 1, stops short of the ends. In the
released program w and b lag one epoch behind mu and sigma: of T epochs, epoch t (from 0) has w, b
at t / T and mu, sigma at (t + 1) / T; `variant="released"` does that, and charges seen positives
-log p. The released program also gives the linear layer 10 times the learning rate: set
`head_lr_mult` in the recipe for that.

Eq. 4 sums over classes; here, as in the released program, the loss is the mean over them. The
factor L changes nothing in Adam's steps but the part of its epsilon (1e-8).

The paper keeps q1, q2, q3 constant and names it a limitation that they do not move (section 5).
`q2_end` and `q3_end` let q2 and q3 move along the same line; that is ours and off by default.

`gr_learned` learns khat and v instead of scheduling them: the ablation that the paper found worse,
section 3.3 ("The update of beta") and the last row of Table 3. w, b (beta) and mu, sigma (alpha)
are one number per class each and start where the paper's schedules start. p is stopped inside khat
and v, so the model is trained as in GR; the loss of an unobserved label, v (khat L2 + (1 - khat)
L3), reaches w and b through khat and mu and sigma through v. The row of Table 3 learns both;
`learn_v=False` learns khat alone and leaves mu and sigma on GR's schedule. Ours, because the paper
does not say: the recipe's learning rate, and sigma not below 0.01, as v has no meaning at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from plusone.losses import Variant, generalized_robust, reduce
from plusone.methods._base import Choice, Method, MethodInfo, Options, Part, PublishedFigure, Range
from plusone.methods._papers import CHEN, CHEN_TABLE_2
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels

SIGMA_FLOOR = 0.01
# What switches a part of GR off, for its ablation.
NO_KHAT = {"w": 0.0, "w_start": 0.0, "b": -90.0, "b_start": -90.0}  # sigmoid(-90) is 0
NO_V = {"sigma": 1e6, "sigma_start": 1e6}  # v is 1
NO_ROBUST = {"q1": 0.01, "q2": 0.01, "q3": 0.01}


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
    variant: Variant = "paper"
    reach_end: bool = True

    def __post_init__(self) -> None:
        if min(self.sigma, self.sigma_start) <= 0:
            got = f"{self.sigma}, {self.sigma_start}"
            raise ValueError(f"sigma and sigma_start must be positive, got {got}")


@dataclass(frozen=True)
class GrOptions(RobustOptions):
    """Ends of the schedules as published for VOC; COCO, NUS and CUB use w 10, b -8 (CUB q3 1.5)."""

    w: float = 2.0
    b: float = -2.0


@dataclass(frozen=True)
class GrLearnedOptions(RobustOptions):
    """Starts of what is learned; mu and sigma are ends of a schedule, used if learn_v is false."""

    learn_v: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learn_v and (self.mu, self.sigma) != (type(self).mu, type(self).sigma):
            raise ValueError("mu and sigma end a schedule: to use it, set learn_v to false")


R_co = TypeVar("R_co", bound=RobustOptions, covariant=True)


class Robust(Method[R_co]):
    """`plusone.losses.generalized_robust`, given w and b of khat and mu and sigma of v."""

    def schedule(self, clock: Clock) -> Mapping[str, float | Tensor]:
        """The values of w, b, mu and sigma in an epoch."""
        raise NotImplementedError(f"{type(self).__name__} must define schedule()")

    def scheduled_weight(self, clock: Clock) -> dict[str, float | Tensor]:
        """The part of the schedule that shapes v: mu and sigma."""
        o = self.options
        at = (clock.epoch + 1) / clock.epochs if o.variant == "released" else self._line(clock)
        return {
            "mu": linear(at, o.mu_start, o.mu),
            "sigma": linear(at, o.sigma_start, o.sigma),
        }

    def robustness(self, clock: Clock) -> dict[str, float]:
        """q1, q2 and q3 in an epoch; an end that is None leaves its q where it is."""
        o, at = self.options, self._line(clock)
        if min(o.q2_end or 0.0, o.q3_end or 0.0) < 0:
            raise ValueError(f"q2_end and q3_end must not be negative: {o.q2_end}, {o.q3_end}")
        return {
            "q1": o.q1,
            "q2": o.q2 if o.q2_end is None else linear(at, o.q2, o.q2_end),
            "q3": o.q3 if o.q3_end is None else linear(at, o.q3, o.q3_end),
        }

    def _line(self, clock: Clock) -> float:
        """0 in the first epoch of a stage, and 1 in its last or just after it."""
        return clock.epoch / max(clock.epochs - self.options.reach_end, 1)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        at = self.schedule(clock)
        losses = generalized_robust(
            outs[0].logits,
            batch.observed,
            w=at["w"],
            b=at["b"],
            mu=at["mu"],
            sigma=at["sigma"],
            **self.robustness(clock),
            variant=self.options.variant,
        )
        return {"loss": reduce(losses)}


class Gr(Robust[GrOptions]):
    """`gr`: all four are scheduled."""

    def schedule(self, clock: Clock) -> Mapping[str, float | Tensor]:
        o = self.options
        at = clock.epoch / clock.epochs if o.variant == "released" else self._line(clock)
        trust: dict[str, float | Tensor] = {
            "w": linear(at, o.w_start, o.w),
            "b": linear(at, o.b_start, o.b),
        }
        return trust | self.scheduled_weight(clock)


class GrLearned(Robust[GrLearnedOptions]):
    """`gr_learned`: parameters `[L]`, `learned_w`, `learned_b` and so on."""

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

    def schedule(self, clock: Clock) -> Mapping[str, float | Tensor]:
        shape: dict[str, float | Tensor] = {
            "mu": self.learned_mu,
            "sigma": self.learned_sigma.clamp(min=SIGMA_FLOOR),
        }
        if not self.options.learn_v:
            shape = self.scheduled_weight(clock)
        return {"w": self.learned_w, "b": self.learned_b} | shape


def linear(progress: float, start: float, end: float) -> float:
    """A straight line from `start` to `end`.

    >>> linear(0.25, 0.0, 8.0)
    2.0
    """
    return start + (end - start) * progress


INFOS = (
    MethodInfo(
        name="gr",
        build=Gr,
        options=GrOptions,
        paper=CHEN,
        year=2024,
        summary="robust losses and growing trust in the model's own guesses",
        small_rate=True,
        grid=({"w": 10.0, "b": -8.0}, {"w": 4.0, "b": -2.0}),
        search_space={"w": Range(1.0, 12.0), "b": Range(-10.0, 0.0), "q3": Range(0.2, 2.0)},
        ablation=(
            Part(
                "none: AN",
                method="an",
                paper="GR Table 3, AN loss",
                published={"voc": 85.89, "coco": 64.92},
            ),
            Part(
                "khat",
                NO_V | NO_ROBUST,
                paper="GR Table 3, row 1",
                published={"voc": 88.31, "coco": 70.41},
            ),
            Part(
                "v",
                NO_KHAT | NO_ROBUST,
                paper="GR Table 3, row 2",
                published={"voc": 87.32, "coco": 69.17},
            ),
            Part(
                "robust losses",
                NO_KHAT | NO_V,
                paper="GR Table 3, row 3",
                published={"voc": 87.48, "coco": 69.96},
            ),
            Part(
                "khat + v",
                NO_ROBUST,
                paper="GR Table 3, row 4",
                published={"voc": 88.11, "coco": 70.48},
            ),
            Part(
                "khat + robust losses",
                NO_V,
                paper="GR Table 3, row 5",
                published={"voc": 89.35, "coco": 72.86},
            ),
            Part(
                "v + robust losses",
                NO_KHAT,
                paper="GR Table 3, row 6",
                published={"voc": 87.83, "coco": 70.2},
            ),
            Part(
                "khat + v + robust losses",
                paper="GR Table 3, row 7",
                published={"voc": 89.83, "coco": 73.17},
            ),
            Part(
                "khat and v learned",
                method="gr_learned",
                paper="GR Table 3, row 8",
                leaves=("mu", "sigma"),
                published={"voc": 89.03, "coco": 71.84},
            ),
        ),
        published=(PublishedFigure("finetune", CHEN_TABLE_2, 89.83, 73.17, 49.08, 21.64),),
    ),
    MethodInfo(
        name="gr_learned",
        title="GR, learned",
        build=GrLearned,
        options=GrLearnedOptions,
        paper=CHEN,
        year=2024,
        summary=(
            "gr with its trust and weights learned; published as worse, kept as that comparison"
        ),
        alone="it learns parameters of its own",
        grid=({"learn_v": False},),
        search_space={"learn_v": Choice((True, False)), "q3": Range(0.2, 2.0)},
    ),
)
