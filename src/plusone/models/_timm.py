"""Any network of timm as a backbone (extra `image`)."""

from __future__ import annotations

import difflib
import importlib
import math
import socket
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from plusone.errors import InputError, first_line
from plusone.extras import import_torchvision, install_command
from plusone.models.weights import load_weights

WEIGHTS = "model.safetensors"  # name of the weights file in a repository of the hub
ADVICE = "set weights to a local file, or to random to train from scratch"


class TimmBackbone(nn.Module):
    """A timm network up to its last feature map, without pooling and classifier.

    Grey images are passed to it as three equal channels.

    Args:
        name: Name of the network in timm, with or without a tag (`resnet50.a1_in1k`).
        size: Side of the images, for networks with a fixed input size.

    Attributes:
        dim: Channels of the map.
        mean: Mean of each channel that the weights expect, in [0, 1].
        std: Standard deviation of each channel, likewise.
    """

    def __init__(self, name: str, size: int) -> None:
        super().__init__()
        config = timm_config(name)
        native = int(config.input_size[-1])
        sized = {"img_size": size} if config.fixed_input_size and size != native else {}
        try:
            net = _timm().create_model(name, pretrained=False, num_classes=0, **sized)
            _check_forward(net, size)
        except (TypeError, ValueError, AssertionError, RuntimeError) as error:
            if size == native:
                raise
            raise InputError(
                f"timm/{name}: takes images of {native} pixels and not of {size} "
                f"({first_line(error)}); set image_size = {native}"
            ) from None
        self.name, self.config = name, config
        self.net = net
        self.dim = int(net.num_features)
        self.mean, self.std = tuple(config.mean), tuple(config.std)
        self.channels_last = getattr(net, "output_fmt", "NCHW") == "NHWC"
        self.prefix_tokens = int(getattr(net, "num_prefix_tokens", 0))

    def forward(self, images: Tensor) -> Tensor:
        """Feature map `[B, dim, h, w]` of images `[B, 3, H, W]`; tokens `[B, T, dim]` if no map."""
        return as_map(
            self.net.forward_features(images),
            channels_last=self.channels_last,
            prefix_tokens=self.prefix_tokens,
        )

    def load(self, path: Path) -> None:
        """Loads the weights of a file."""
        classifier = self.config.classifier
        names = (classifier,) if isinstance(classifier, str) else tuple(classifier or ())
        load_weights(self.net, path, classifier=names, adapt=self._adapt)

    def load_pretrained(self) -> None:
        """Loads timm's pretrained weights from the hub's local cache, or from the hub."""
        if not self.config.hf_hub_id:
            raise InputError(f"timm/{self.name}: timm has no weights for it; {ADVICE}")
        self.load(_from_hub(self.config.hf_hub_id))

    def _adapt(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Converts names, and position embeddings to another image size, as timm does."""
        module = sys.modules[_timm().models.model_entrypoint(self.name).__module__]
        convert = getattr(module, "checkpoint_filter_fn", None)
        return tensors if convert is None else dict(convert(tensors, self.net))


@torch.inference_mode()
def _check_forward(net: nn.Module, size: int) -> None:
    """One forward pass: some networks reject an image size only then."""
    training = net.training
    net.eval().forward_features(torch.zeros(1, 3, size, size))  # type: ignore[operator]
    net.train(training)


def as_map(features: Tensor, *, channels_last: bool = False, prefix_tokens: int = 0) -> Tensor:
    """The feature map `[B, D, h, w]` from the features of a timm network.

    Args:
        features: A map `[B, D, h, w]` or, if `channels_last`, `[B, h, w, D]`; or tokens
            `[B, T, D]`, which form a square map, row by row, if T is a square number.
        channels_last: Whether the channels of a map come last.
        prefix_tokens: Leading tokens without a position, such as a class token; they are removed.
            One more is removed if only then the rest is a square: not every network declares its
            class token.
    """
    if features.ndim == 4:
        return features.permute(0, 3, 1, 2) if channels_last else features
    if features.ndim != 3:
        return features
    tokens = features[:, prefix_tokens:]
    if not _is_square(tokens.shape[1]) and _is_square(tokens.shape[1] - 1):
        tokens = tokens[:, 1:]
    if not _is_square(tokens.shape[1]):
        return tokens
    side = math.isqrt(tokens.shape[1])
    return tokens.transpose(1, 2).reshape(len(tokens), -1, side, side)


def _is_square(n: int) -> bool:
    return n > 1 and math.isqrt(n) ** 2 == n


def timm_config(name: str) -> Any:
    """The pretrained configuration of a timm network: image size, mean, std, weights."""
    timm = _timm()
    if not timm.is_model(name):
        close = difflib.get_close_matches(name, timm.list_models(), n=5)
        hint = f"; close names: {', '.join(close)}" if close else ""
        raise InputError(f"unknown backbone timm/{name}{hint}")
    try:
        return timm.get_pretrained_cfg(name, allow_unregistered=False)
    except RuntimeError:
        known = timm.list_models(f"{name.partition('.')[0]}.*", pretrained=True)
        listed = f"; known: {', '.join(known)}" if known else ""
        raise InputError(f"timm/{name}: timm knows no weights of that name{listed}") from None


def _timm() -> Any:
    try:
        import_torchvision()
        return importlib.import_module("timm")
    except ImportError:
        raise InputError(
            f"backbones of timm need the extra image: {install_command('image')}"
        ) from None


def _from_hub(repository: str) -> Path:
    """The weights file of a repository of the hub, from its local cache or downloaded into it."""
    hub = importlib.import_module("huggingface_hub")
    cached = hub.try_to_load_from_cache(repository, WEIGHTS)
    if isinstance(cached, str):
        return Path(cached)
    if not _hub_is_reachable():
        raise InputError(
            f"{repository}: not in the local cache, and the hub is not reachable; {ADVICE}"
        )
    try:
        return Path(hub.hf_hub_download(repository, WEIGHTS))
    except Exception as error:  # downloads fail in many ways
        raise InputError(
            f"{repository}: cannot be downloaded ({first_line(error)}); {ADVICE}"
        ) from error


def _hub_is_reachable() -> bool:
    """Whether the hub's name resolves; its own client would retry for most of a minute."""
    constants = importlib.import_module("huggingface_hub.constants")
    if constants.HF_HUB_OFFLINE:
        return False
    if urllib.request.getproxies():
        return True  # the proxy resolves names
    try:
        socket.getaddrinfo(urllib.parse.urlsplit(constants.ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True
