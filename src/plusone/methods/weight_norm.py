"""AN with a norm of the head's weights added: the L1R and L2R rows of Zhou et al. 2022.

Acknowledging the Unknown for Multi-label Learning with Single Positive Labels, ECCV. The weight
lambda of their rows is not stated in the sources we have; 1e-5 and 1e-4 are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from plusone.losses import assume_negative, reduce
from plusone.methods._base import Method, MethodInfo, Options, PublishedFigure, Range
from plusone.methods._papers import ZHOU, ZHOU_TABLE
from plusone.types import Batch, Clock, Outputs


@dataclass(frozen=True)
class NormOptions(Options):
    """Weight of the norm."""

    lam: float = 1e-5


@dataclass(frozen=True)
class L2Options(NormOptions):
    """Weight of the norm."""

    lam: float = 1e-4


class L1Regularized(Method[NormOptions]):
    """AN plus lambda times the L1 norm of the head's weights."""

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"loss": reduce(assume_negative(outs[0].logits, batch.observed))}

    def penalty(self, head: nn.Module) -> dict[str, Tensor]:
        weight = head.weight
        assert isinstance(weight, Tensor)
        return {"norm": self.options.lam * self.norm(weight)}

    def norm(self, weight: Tensor) -> Tensor:
        """The norm `[...]` of weights `[..., L, D]`."""
        return weight.abs().sum((-2, -1))


class L2Regularized(L1Regularized):
    """AN plus lambda times the squared L2 norm of the head's weights."""

    def norm(self, weight: Tensor) -> Tensor:
        return weight.square().sum((-2, -1))


INFOS = (
    MethodInfo(
        name="l1r",
        build=L1Regularized,
        options=NormOptions,
        paper=ZHOU,
        year=2022,
        summary="assume negative plus the L1 norm of the weights",
        grid=({"lam": 1e-6}, {"lam": 1e-4}),
        search_space={"lam": Range(1e-7, 1e-3, log=True)},
        published=(PublishedFigure("finetune", ZHOU_TABLE, 85.97, 64.44, 42.15, 17.59),),
    ),
    MethodInfo(
        name="l2r",
        build=L2Regularized,
        options=L2Options,
        paper=ZHOU,
        year=2022,
        summary="assume negative plus the L2 norm of the weights",
        grid=({"lam": 1e-5}, {"lam": 1e-3}),
        search_space={"lam": Range(1e-6, 1e-2, log=True)},
        published=(PublishedFigure("finetune", ZHOU_TABLE, 85.96, 64.41, 42.72, 17.71),),
    ),
)
