"""Image files to tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn import functional

from plusone.errors import InputError

MAX_PIXELS = 200_000_000


def decode(path: Path, size: int) -> Tensor:
    """Reads one image as bytes `[3, size, size]`, resized without keeping its aspect.

    The orientation that cameras note beside the pixels is applied; transparency, palettes, grey
    and CMYK become RGB. Resizing antialiases.
    """
    try:
        with Image.open(path) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise InputError(
                    f"{path}: {opened.width} x {opened.height} pixels are more than the "
                    f"{MAX_PIXELS:,} allowed"
                )
            image = _eight_bits(ImageOps.exif_transpose(opened)).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read as an image ({error})") from None
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    if pixels.shape[1:] == (size, size):
        return pixels.contiguous()
    resized = functional.interpolate(
        pixels[None], size=(size, size), mode="bilinear", antialias=True, align_corners=False
    )
    return resized[0]


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scans and medical images often have 16 bits a pixel, which plain conversion cuts to white."""
    if not image.mode.startswith("I"):
        return image
    values = np.asarray(image, dtype=np.float64)
    scale = 257 if values.max() > 255 else 1
    return Image.fromarray((values / scale).round().astype(np.uint8))


def decode_all(paths: Sequence[Path], size: int, tick: Callable[[], None] | None = None) -> Tensor:
    """Reads many images into one tensor of bytes `[N, 3, size, size]`, on a few threads."""
    images = torch.empty(len(paths), 3, size, size, dtype=torch.uint8)
    with ThreadPoolExecutor(max_workers=4) as pool:
        for row, image in enumerate(pool.map(lambda path: decode(path, size), paths)):
            images[row] = image
            if tick is not None:
                tick()
    return images
