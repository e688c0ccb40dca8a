"""GPR: GR with pseudo-labels from hints, and the right number of positives on average.

Tran et al. 2025, More Reliable Pseudo-labels, Better Performance: A Generalized Approach to Single
Positive Multi-label Learning (AEVLP), ICCV, https://arxiv.org/abs/2508.20381: its GPR loss
(`plusone.losses.generalized_pseudo_robust`; labels without a pseudo-label cost what Eq. 5 of GR
says) plus `reg` times the penalty of EPR (Cole et al. 2021, Eq. 10). Its hints, DAMP, are made of
CLIP's scores of an image and its tiles.

Pseudo positives are an item's labels among its `top` highest hints that are `theta` or more, pseudo
negatives the lowest share `negatives` of its hints (of its classes, if each has one, as in the
paper). Written from the formulas.

Deviations: the paper takes negatives by the mean of the tiles, here one table of hints serves both.
In the released program they end up as unknown labels; `negatives=0` does that. Its schedules are
those of GR's released program, the default here. Without pseudo-labels and with `reg=0` it is GR.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from plusone.errors import InputError
from plusone.losses import (
    Variant,
    expected_positive_penalty,
    generalized_pseudo_robust,
    reduce,
)
from plusone.methods._base import MethodInfo, Part, PublishedFigure, Range
from plusone.methods._hinted import Hinted, highest, lowest
from plusone.methods._papers import TRAN, TRAN_TABLE
from plusone.methods.gr import Gr, GrOptions
from plusone.types import Batch, Clock, Outputs


@dataclass(frozen=True)
class GprOptions(GrOptions):
    """Published for VOC; COCO and NUS: w 10, b -8, lam2 0.5, reg 0.001; the recipes have all."""

    variant: Variant = "released"
    lam1: float = 0.7
    lam2: float = 0.4
    rho: float = 0.9
    reg: float = 0.05
    theta: float = 0.5
    top: int = 3
    negatives: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lam2 > self.lam1:
            raise ValueError(f"lam2 must not be above lam1, got {self.lam2} and {self.lam1}")
        if not 0 <= self.negatives <= 1:
            raise ValueError(f"negatives is a share of an item's hints, got {self.negatives}")


class Gpr(Hinted[GprOptions], Gr):
    """Needs `expected_positives`, unless `reg` is 0."""

    def pseudo_labels(self, hints: Tensor) -> Tensor:
        """Pseudo-labels of hints `[..., L]`, in {1, 0, -1}."""
        o = self.options
        positive = highest(hints, o.top) & (hints >= o.theta)
        negative = lowest(hints, o.negatives) & ~positive
        return positive.to(hints.dtype) - negative.to(hints.dtype)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, z, at = self.options, outs[0].logits, self.schedule(clock)
        losses = generalized_pseudo_robust(
            z,
            batch.observed,
            self.pseudo_labels(self.hints_of(batch)),
            w=at["w"],
            b=at["b"],
            mu=at["mu"],
            sigma=at["sigma"],
            **self.robustness(clock),
            lam1=o.lam1,
            lam2=o.lam2,
            rho=o.rho,
            variant=o.variant,
        )
        if o.reg == 0:
            return {"loss": reduce(losses)}
        if self.labels.expected_positives is None:
            raise InputError("the method gpr needs expected_positives, or reg=0")
        penalty = expected_positive_penalty(z, self.labels.expected_positives)
        return {"loss": reduce(losses), "expected_positives": o.reg * penalty}


OFF = {"top": 0, "negatives": 0.0}

INFO = MethodInfo(
    name="gpr",
    build=Gpr,
    options=GprOptions,
    paper=TRAN,
    year=2025,
    summary="gr with pseudo-labels from hints, and the right number of positives",
    needs_k=True,
    needs_hints=True,
    small_rate=True,
    no_curve="a hint decides which cost a label has",
    grid=({"w": 10.0, "b": -8.0}, {"negatives": 0.0}),
    search_space={
        "w": Range(1.0, 12.0),
        "b": Range(-10.0, 0.0),
        "theta": Range(0.1, 0.9),
        "negatives": Range(0.0, 0.5),
    },
    ablation=(
        Part("GR", OFF | {"reg": 0.0}),
        Part("GR + count of positives", OFF),
        Part("GR + pseudo positives", {"reg": 0.0, "negatives": 0.0}),
        Part("GR + pseudo-labels", {"reg": 0.0}),
        Part("GR + pseudo-labels + count of positives"),
    ),
    published=(PublishedFigure("finetune", TRAN_TABLE, 90.46, 73.54, 50.70, 24.89),),
)
