"""Image files to tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn import functional

from plusone.errors import InputError

MAX_PIXELS = 200_000_000
CROPPED = 256 / 224  # short side over the crop's side, the common choice for ImageNet models

Aspect = Literal["stretch", "crop"]


def decode(path: Path, size: int, aspect: Aspect = "stretch") -> Tensor:
    """Reads one image as bytes `[3, size, size]`.

    The orientation that cameras note beside the pixels is applied; transparency, palettes, grey
    and CMYK become RGB. Resizing antialiases.

    Args:
        path: The file.
        size: Side of the result.
        aspect: "stretch" resizes to the square without keeping the aspect, as the published
            protocol does; "crop" cuts the middle square of 224 / 256 of the short side out and
            resizes it.
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
    if aspect == "crop":
        image = image.crop(middle(*image.size, size))
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    return _resized(pixels, size).contiguous()


def middle(width: int, height: int, size: int) -> tuple[int, int, int, int]:
    """The square in the middle that "crop" cuts out: left, top, right, bottom.

    >>> middle(512, 256, 224)
    (144, 16, 368, 240)
    """
    side = max(1, round(min(width, height) * size / round(size * CROPPED)))
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def _resized(pixels: Tensor, size: int) -> Tensor:
    if pixels.shape[1:] == (size, size):
        return pixels
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


def decode_all(
    paths: Sequence[Path],
    size: int,
    tick: Callable[[], None] | None = None,
    aspect: Aspect = "stretch",
    out: Tensor | None = None,
) -> Tensor:
    """Reads many images into one tensor of bytes `[N, 3, size, size]`, on a few threads.

    Args:
        paths: The files.
        size: Side of the results.
        tick: Called once per image.
        aspect: As for `decode`.
        out: Where to put them; new memory by default.
    """
    if out is None:
        out = torch.empty(len(paths), 3, size, size, dtype=torch.uint8)
    with ThreadPoolExecutor(max_workers=4) as pool:
        for row, image in enumerate(pool.map(lambda path: decode(path, size, aspect), paths)):
            out[row] = image
            if tick is not None:
                tick()
    return out
