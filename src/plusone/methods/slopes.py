"""Derivatives of a method's loss with respect to the logits, by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from plusone.methods.base import Method
from plusone.types import Batch, Clock, Outputs

Tables = dict[str, Tensor]


class Sloped(NamedTuple):
    """Terms of a loss, their factors, and the derivative `[B, L]`, to be times `scale`."""

    terms: Tables
    factors: Mapping[str, float]
    slope: Tensor
    scale: float


def slopes_of(method: Method) -> Callable[[Tensor, Batch, Clock], Sloped]:
    """A function of logits `[B, L]`, their batch, and the clock."""

    def of_loss(logits: Tensor, batch: Batch, clock: Clock) -> Sloped:
        leaf = logits.detach().requires_grad_()
        outs = tuple(Outputs(leaf, view) for view in batch.views)
        with torch.enable_grad():
            terms = method.loss(outs, batch, clock)
        moving = [term for term in terms.values() if term.requires_grad]
        (slope,) = torch.autograd.grad(moving, leaf)
        return Sloped({name: term.detach() for name, term in terms.items()}, {}, slope, 1.0)

    return of_loss
