"""Heads: from the backbone's features to one logit per class."""

from __future__ import annotations

from torch import Tensor, nn

from plusone.types import Outputs


class Head(nn.Module):
    """The part of a model above the backbone."""

    def pool(self, features: Tensor) -> Tensor:
        """What of the backbone's output this head needs; this is what gets cached.

        A feature map `[B, D, h, w]` becomes its average `[B, D]`; vectors pass unchanged.
        """
        return features.mean(dim=(2, 3)) if features.ndim == 4 else features

    def forward(self, features: Tensor) -> Outputs:
        raise NotImplementedError(f"{type(self).__name__} must define forward()")


class LinearHead(Head):
    """One linear layer on pooled features."""

    def __init__(self, dim: int, n_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, n_classes)

    def forward(self, features: Tensor) -> Outputs:
        return Outputs(self.linear(features), features)
