"""`Classifier`: a backbone and a head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from plusone.models.heads import Head
from plusone.types import Outputs


class Normalize(nn.Module):
    """Turns bytes `[B, C, H, W]` into floats with the mean and spread a backbone expects."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        scale = 255 * torch.tensor(std)
        offset = -torch.tensor(mean) / torch.tensor(std)
        self.register_buffer("scale", scale.reciprocal().view(1, -1, 1, 1), persistent=False)
        self.register_buffer("offset", offset.view(1, -1, 1, 1), persistent=False)
        self.scale: Tensor
        self.offset: Tensor

    def forward(self, images: Tensor) -> Tensor:
        # The channels-last layout, which the layers behind then keep, is faster on CPUs.
        values = images.to(self.scale.dtype, memory_format=torch.channels_last)
        return torch.addcmul(self.offset, values, self.scale)


class Classifier(nn.Module):
    """Backbone, then head. Features in memory use `nn.Identity()` as the backbone.

    Args:
        backbone: Gives a feature map `[B, D, h, w]` or features `[B, D]`.
        head: Gives `Outputs` from what its `pool` makes of them.
    """

    def __init__(self, backbone: nn.Module, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def features(self, inputs: Tensor) -> Tensor:
        """What the head gets to see of a batch of inputs."""
        pooled: Tensor = self.head.pool(self.backbone(inputs))
        return pooled

    def forward(self, inputs: Tensor) -> Outputs:
        outputs: Outputs = self.head(self.features(inputs))
        return outputs
