"""`Classifier`: a backbone and a head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from plusone.device import AUTOCAST
from plusone.errors import InputError
from plusone.models.heads import Head
from plusone.types import Outputs


class Normalize(nn.Module):
    """Converts bytes `[B, C, H, W]` to floats, normalised as a backbone expects."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        scale = 255 * torch.tensor(std)
        offset = -torch.tensor(mean) / torch.tensor(std)
        self.register_buffer("scale", scale.reciprocal().view(1, -1, 1, 1), persistent=False)
        self.register_buffer("offset", offset.view(1, -1, 1, 1), persistent=False)
        self.scale: Tensor
        self.offset: Tensor

    def forward(self, images: Tensor) -> Tensor:
        # The channels-last layout, which later layers keep, is faster on CPUs.
        values = images.to(self.scale.dtype, memory_format=torch.channels_last)
        return torch.addcmul(self.offset, values, self.scale)


class Classifier(nn.Module):
    """Backbone, then head. Features in memory use `nn.Identity()` as the backbone.

    Args:
        backbone: Gives a feature map `[B, D, h, w]`, tokens `[B, T, D]` or features `[B, D]`.
        head: Gives `Outputs` from the features that its `pool` returns.
        precision: "bf16" or "fp16" runs the backbone under autocast to bfloat16 or float16; the
            weights, the head and the loss stay in float32.
    """

    def __init__(self, backbone: nn.Module, head: Head, precision: str = "float32") -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.precision = precision

    def place(self, device: torch.device) -> None:
        """Moves it to a device; after `Normalize` with channels-last weights of convolutions.

        Weights in another layout than the inputs are converted at each call. CPUs do that anyway,
        and Apple's chips are not faster with this layout.
        """
        last = any(isinstance(part, Normalize) for part in self.backbone.modules())
        if last and device.type not in ("cpu", "mps"):
            self.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        else:
            self.to(device)

    def features(self, inputs: Tensor) -> Tensor:
        """The pooled features of a batch of inputs, as the head takes them.

        Several crops of each image, `[B, V, C, H, W]`, give the mean of their features.
        """
        if inputs.ndim == 5:
            return self.crop_features(inputs).mean(dim=1)
        autocast = AUTOCAST.get(self.precision)
        if autocast is not None:
            with torch.autocast(inputs.device.type, dtype=autocast):
                maps = self.backbone(inputs)
        else:
            maps = self.backbone(inputs)
        if not isinstance(maps, Tensor) or maps.ndim not in (2, 3, 4):
            given = f"{tuple(maps.shape)}" if isinstance(maps, Tensor) else type(maps).__name__
            raise InputError(
                "a backbone must return a tensor [B, D, h, w], [B, T, D] or [B, D]; "
                f"{type(self.backbone).__name__} returned {given}"
            )
        pooled: Tensor = self.head.pool(maps.float() if autocast is not None else maps)
        return pooled

    def crop_features(self, crops: Tensor) -> Tensor:
        """The pooled features `[B, V, D]` of each crop of images, `[B, V, C, H, W]`."""
        return self.features(crops.flatten(0, 1)).reshape(*crops.shape[:2], -1)

    def forward(self, inputs: Tensor) -> Outputs:
        outputs: Outputs = self.head(self.features(inputs))
        return outputs
