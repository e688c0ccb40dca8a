"""The strong view of an image: RandAugment, colour jitter, grey and cutout, on bytes.

LAC (Xie et al. 2022, "Label-aware global consistency for multi-label learning with single positive
labels", section 4.1) names Cutout (DeVries and Taylor 2017) and RandAugment (Cubuk et al. 2020) as
its strong augmentation; its released program also jitters colours and converts some images to grey.
The papers do not give the details. Here:

| step | setting |
| --- | --- |
| RandAugment | 2 of 14 operations, each with a strength drawn uniformly from its whole range |
| colour jitter | probability 0.8: brightness, contrast and colour each times 0.6 to 1.4; no hue |
| grey | probability 0.2 |
| cutout | always: a square of half the side, its centre anywhere in the image, of a random colour |

Deviations: geometric operations take the nearest pixel and fill with mid grey.

The operations are Pillow's. All random numbers are passed in, in [0, 1), so the result for an image
depends only on its own numbers, not on its batch or on the process that computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from plusone.seeds import generator

OPERATIONS_PER_IMAGE = 2
JITTER_SHARE, JITTER = 0.8, 0.4
GREY_SHARE = 0.2
CUTOUT_SIDE = 0.5
FILL = 128
DRAWS = 3 * OPERATIONS_PER_IMAGE + 4 + 1 + 2 + 3  # random numbers per image


def draw_strong(n: int, seed: int) -> Tensor:
    """The random numbers for `n` images, float `[n, DRAWS]` in [0, 1)."""
    return torch.rand(n, DRAWS, generator=generator(seed, "strong view"))


def strong(image: Tensor, draws: Sequence[float]) -> Tensor:
    """All steps of the strong view, in the order of the table above; flips come before it.

    The image is bytes `[C, H, W]`; unless C is 3, every channel is treated as a grey image.
    """
    if image.shape[0] not in (1, 3):
        return torch.cat([strong(channel[None], draws) for channel in image])
    pixels = image.permute(1, 2, 0).contiguous().numpy()
    opened = Image.fromarray(pixels if image.shape[0] == 3 else pixels[..., 0])
    changed = np.array(_strong(opened, draws)).reshape(pixels.shape)
    return torch.from_numpy(changed).permute(2, 0, 1).contiguous()


def _strong(image: Image.Image, draws: Sequence[float]) -> Image.Image:
    numbers = iter(draws)
    for _ in range(OPERATIONS_PER_IMAGE):
        operation = OPERATIONS[int(next(numbers) * len(OPERATIONS))]
        strength = next(numbers)
        image = operation(image, strength, -1.0 if next(numbers) < 0.5 else 1.0)
    jittered = next(numbers) < JITTER_SHARE
    for enhancer in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        factor = 1 + JITTER * (2 * next(numbers) - 1)
        image = enhancer(image).enhance(factor) if jittered else image
    if next(numbers) < GREY_SHARE:
        image = image.convert("L").convert(image.mode)
    across, down = next(numbers), next(numbers)
    return cutout(image, across, down, [int(256 * number) for number in numbers])


def cutout(image: Image.Image, across: float, down: float, colour: list[int]) -> Image.Image:
    """A copy with a rectangle of half its sides painted over it, around `(across, down)` in 0 to 1.

    The colour is red, green and blue; the first is used for a grey image.
    """
    width, height = image.size
    left, top = int((across - CUTOUT_SIDE / 2) * width), int((down - CUTOUT_SIDE / 2) * height)
    right, bottom = left + int(CUTOUT_SIDE * width), top + int(CUTOUT_SIDE * height)
    image = image.copy()
    fill = tuple(colour) if image.mode == "RGB" else colour[0]
    image.paste(fill, (max(left, 0), max(top, 0), min(right, width), min(bottom, height)))
    return image


def affine(
    image: Image.Image, xx: float, xy: float, yx: float, yy: float, dx: float, dy: float
) -> Image.Image:
    """Maps each pixel from `(xx x + xy y + dx, yx x + yy y + dy)`, relative to the centre."""
    x, y = image.width / 2, image.height / 2
    matrix = (xx, xy, dx + x - xx * x - xy * y, yx, yy, dy + y - yx * x - yy * y)
    fill = FILL if image.mode == "L" else (FILL,) * 3
    return image.transform(image.size, Image.Transform.AFFINE, matrix, fillcolor=fill)


def _rotate(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(degrees, fillcolor=FILL if image.mode == "L" else (FILL,) * 3)


Operation = Callable[[Image.Image, float, float], Image.Image]


def _enhance(enhancer: Callable[[Image.Image], ImageEnhance._Enhance]) -> Operation:
    """An enhancement by a factor of 0.1 to 1.9."""
    return lambda image, strength, side: enhancer(image).enhance(1 + side * 0.9 * strength)


# Arguments: an image, the strength in [0, 1) as a share of the range, and the direction, 1 or -1,
# for operations that have two. Ranges are those of AutoAugment (Cubuk et al. 2019), whose
# operations RandAugment uses.
OPERATIONS: tuple[Operation, ...] = (
    lambda image, strength, side: image,
    lambda image, strength, side: ImageOps.autocontrast(image),
    lambda image, strength, side: ImageOps.equalize(image),
    lambda image, strength, side: _rotate(image, side * 30 * strength),
    lambda image, strength, side: ImageOps.solarize(image, 256 - int(256 * strength)),
    lambda image, strength, side: ImageOps.posterize(image, 8 - round(4 * strength)),
    _enhance(ImageEnhance.Contrast),
    _enhance(ImageEnhance.Brightness),
    _enhance(ImageEnhance.Sharpness),
    _enhance(ImageEnhance.Color),
    lambda image, strength, side: affine(image, 1, side * 0.3 * strength, 0, 1, 0, 0),
    lambda image, strength, side: affine(image, 1, 0, side * 0.3 * strength, 1, 0, 0),
    lambda image, strength, side: affine(
        image, 1, 0, 0, 1, side * 0.45 * strength * image.width, 0
    ),
    lambda image, strength, side: affine(
        image, 1, 0, 0, 1, 0, side * 0.45 * strength * image.height
    ),
)
