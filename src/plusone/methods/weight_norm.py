"""AN with a norm of the head's weights added: the L1R and L2R rows of Zhou et al. 2022.

Acknowledging the Unknown for Multi-label Learning with Single Positive Labels, ECCV. The weight
lambda of their rows is not stated in the sources we have; 1e-5 and 1e-4 are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from plusone.losses import assume_negative, l1_penalty, squared_l2_penalty
from plusone.methods.base import Options
from plusone.methods.itemwise import Itemwise
from plusone.types import Clock


@dataclass(frozen=True)
class L1Options(Options):
    """Weight of the norm."""

    lam: float = 1e-5


@dataclass(frozen=True)
class L2Options(Options):
    """Weight of the norm."""

    lam: float = 1e-4


class L1Regularized(Itemwise):
    """AN plus lambda times the L1 norm of the head's weights."""

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        return assume_negative(logits, *known)

    def penalty(self, head: nn.Module) -> dict[str, Tensor]:
        weights: list[Tensor] = [weight for weight in head.parameters() if weight.ndim > 1]
        return {"norm": self.options.lam * self.norm(weights)}

    def norm(self, weights: list[Tensor]) -> Tensor:
        """The norm that is added."""
        return l1_penalty(weights)


class L2Regularized(L1Regularized):
    """AN plus lambda times the squared L2 norm of the head's weights."""

    def norm(self, weights: list[Tensor]) -> Tensor:
        return squared_l2_penalty(weights)
