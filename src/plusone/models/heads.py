"""Heads: from the backbone's features to one logit per class."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plusone.types import Outputs


class Head(nn.Module):
    """The part of a model above the backbone."""

    width_inside: int = 1  # numbers per item that it holds besides the logits, if they are many

    def pool(self, features: Tensor) -> Tensor:
        """What of the backbone's output this head needs; this is what gets cached.

        A feature map `[B, D, h, w]` and tokens `[B, T, D]` become their average `[B, D]`; vectors
        pass unchanged.
        """
        if features.ndim == 3:
            return features.mean(dim=1)
        return features.mean(dim=(2, 3)) if features.ndim == 4 else features

    def forward(self, features: Tensor) -> Outputs:
        raise NotImplementedError(f"{type(self).__name__} must define forward()")


class LinearHead(Head):
    """One linear layer on pooled features."""

    def __init__(self, dim: int, n_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, n_classes)
        self._scratch: Tensor | None = None

    @torch.no_grad()
    def add_gradients(self, features: Tensor, slope: Tensor) -> None:
        """Adds the gradients of the weights, given that of the logits.

        The same numbers as automatic differentiation gives, for less: a linear layer on small
        batches spends most of its time on bookkeeping.

        Args:
            features: What `forward` received, `[B, D]`.
            slope: Derivative of the loss with respect to the logits, `[B, L]`.
        """
        weight, bias = self.linear.weight, self.linear.bias
        if self._scratch is None:
            self._scratch = torch.empty_like(weight)  # a new one each step is mostly page faults
        grad = torch.mm(slope.t(), features, out=self._scratch)
        weight.grad = grad if weight.grad is None else weight.grad + grad
        bias.grad = slope.sum(0) if bias.grad is None else bias.grad + slope.sum(0)

    def forward(self, features: Tensor) -> Outputs:
        return Outputs(self.linear(features), features)
