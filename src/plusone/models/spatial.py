"""A linear head that keeps its class maps: where in the image a class is seen.

The linear layer is applied at every position of the feature map; a class's logit is the mean of
its map. Both are linear, so this equals a linear layer on the averaged map.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import conv2d

from plusone.models.heads import Head
from plusone.types import Outputs


class SpatialHead(Head):
    """One linear layer, at every position.

    Its weights have the names and shapes of `LinearHead`, so either can load the other's.

    Args:
        dim: Channels of the feature map, D.
        n_classes: L.
    """

    def __init__(self, dim: int, n_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, n_classes)

    def pool(self, features: Tensor) -> Tensor:
        """Keeps a map as it is; that is h x w times the memory where features are cached."""
        return features

    def forward(self, features: Tensor) -> Outputs:
        """Maps `[B, L, h, w]` of a map `[B, D, h, w]`, `[B, L, 1, T]` of tokens `[B, T, D]`.

        Vectors `[B, D]` have no places and so no maps.
        """
        if features.ndim == 2:
            return Outputs(self.linear(features), features)
        if features.ndim == 3:
            maps = self.linear(features).transpose(1, 2).unsqueeze(2)
        else:
            maps = conv2d(features, self.linear.weight[:, :, None, None], self.linear.bias)
        return Outputs(maps.mean(dim=(2, 3)), features, maps=maps)
