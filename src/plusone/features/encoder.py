"""`Encoder`: a fixed backbone that makes features of images."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.images import Crops
from plusone.device import resolve
from plusone.errors import InputError
from plusone.features.fused import fused
from plusone.inputs.forward import IMAGES_ON_DEVICE, Fitting
from plusone.models.backbones import backbone_for
from plusone.models.classifier import Classifier
from plusone.models.heads import Head, as_tokens
from plusone.seeds import seeded

BATCH = 16  # images, on a CPU


class Encoder:
    """Features float32 `[B, D]` or `[B, T, D]` of images in bytes.

    Args:
        backbone: Name in the backbone table.
        size: Image side; the backbone's own by default.
        crops: Which crops of each image, see `plusone.data.images.CROPS`; several are averaged.
        weights: Weights of the backbone: "auto" for its own, "random", or the path of a file.
        tokens: Keep all T places of the feature map, row by row, instead of their mean.
        batch_size: Most images computed at once; None for as many as fit.
        device: What the backbone computes on, see `plusone.device.resolve`.

    Attributes:
        rows: Images that a batch should have.
        model: The backbone as it is in a run; the encoder computes the same, faster.
    """

    def __init__(
        self,
        backbone: str,
        size: int | None = None,
        *,
        crops: Crops = "one",
        weights: str = "auto",
        tokens: bool = False,
        batch_size: int | None = None,
        device: str = "auto",
    ) -> None:
        if tokens and crops != "one":
            raise InputError(
                "places of several crops cannot be averaged; leave out tokens or crops"
            )
        row = backbone_for(backbone)
        self.size, self.crops, self.tokens = size or row.size, crops, tokens
        self.device = resolve(device)
        with seeded("extract"):  # a backbone with random weights must be the same every time
            net = row.build(3, self.size, weights).eval()
            noise = torch.randint(0, 256, (1, 3, self.size, self.size), dtype=torch.uint8)
        self.model = Classifier(net, Head())
        self._net = fused(net, noise).to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.rows = BATCH if self.device.type == "cpu" else IMAGES_ON_DEVICE
        self._fitting = Fitting(self._features, self.device, cropped=self.rows)
        self._fitting.rows = batch_size

    @torch.no_grad()
    def __call__(self, images: Tensor) -> npt.NDArray[np.float32]:
        """The features of images `[B, 3, size, size]`, or `[B, V, 3, size, size]` for crops."""
        features: npt.NDArray[np.float32] = self._fitting(images).numpy()
        return features

    def _features(self, images: Tensor) -> Tensor:
        if self.crops == "one":
            maps = self._net(images.contiguous(memory_format=torch.channels_last))
            return as_tokens(maps)[0] if self.tokens else Head().pool(maps)
        # Crop by crop: for a CPU larger batches are slower.
        each = torch.stack([Head().pool(self._net(crop)) for crop in images.unbind(1)])
        return each.mean(0)
