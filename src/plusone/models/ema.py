"""Exponential moving average of a model's weights."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from plusone.models.classifier import Classifier


class Ema:
    """The averaged weights of a model; its buffers (batch statistics) are copied.

    Args:
        model: The model that is trained.
        decay: Share of the old average kept at each step.
    """

    def __init__(self, model: Classifier, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).requires_grad_(False).eval()

    @torch.no_grad()
    def update(self, model: Classifier) -> None:
        """Moves the average towards the model's current weights."""
        averages: list[Tensor] = list(self.model.parameters())
        torch._foreach_lerp_(averages, [*model.parameters()], 1 - self.decay)
        for average, value in zip(self.model.buffers(), model.buffers(), strict=True):
            average.copy_(value)
