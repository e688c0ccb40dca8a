"""A small convolutional network for small images, quick enough to train on a CPU in seconds."""

from __future__ import annotations

import torch
from torch import nn


def _block(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class SmallCNN(nn.Module):
    """Five convolutions down to an eighth of the resolution; the map is returned unpooled.

    The images are brought into the channels-last memory layout, which the layers then keep: it
    trains faster on a CPU and changes no shape.

    Args:
        in_channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first layer; the map has four times as many.

    Attributes:
        dim: Channels of the map that `forward` returns.

    Example:
        >>> SmallCNN(in_channels=3, width=8)(torch.zeros(2, 3, 128, 128)).shape
        torch.Size([2, 32, 16, 16])
    """

    def __init__(self, in_channels: int = 1, width: int = 12) -> None:
        super().__init__()
        self.dim = 4 * width
        self.layers = nn.Sequential(
            _block(in_channels, width, kernel=5, stride=2),
            _block(width, 2 * width, stride=2),
            _block(2 * width, 2 * width),
            nn.MaxPool2d(2),
            _block(2 * width, 4 * width),
            _block(4 * width, self.dim),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Computes the feature map.

        Args:
            x: Images, float [B, C, H, W].

        Returns:
            Non-negative features, float [B, dim, h, w]; h and w are about H / 8 and W / 8.
        """
        features: torch.Tensor = self.layers(x.contiguous(memory_format=torch.channels_last))
        return features
