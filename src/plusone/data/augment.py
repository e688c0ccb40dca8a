"""The strong view of an image: RandAugment, colour jitter, grey and cutout, on bytes.

LAC (Xie et al. 2022, "Label-aware global consistency for multi-label learning with single positive
labels", section 4.1) names Cutout (DeVries and Taylor 2017) and RandAugment (Cubuk et al. 2020) as
its strong augmentation; its released program also jitters colours and turns some images grey.
The papers leave the details open. Here:

| step | setting |
| --- | --- |
| RandAugment | 2 of 14 operations, each with a strength drawn uniformly from its whole range |
| colour jitter | probability 0.8: brightness, contrast and colour each times 0.6 to 1.4; no hue |
| grey | probability 0.2 |
| cutout | always: a square of half the side, its centre anywhere in the image, of a random colour |

Deviations: geometric operations take the nearest pixel and fill with mid grey.

Every function takes one image, bytes `[C, H, W]`, and gives one of the same shape. All chance comes
in as numbers in [0, 1), so an image's result depends on its own numbers alone: not on the batch it
is in, nor on the process that computes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from plusone.data.colours import (
    autocontrast,
    brightness,
    colour,
    contrast,
    equalize,
    grey,
    posterize,
    sharpness,
    solarize,
)
from plusone.seeds import generator

OPERATIONS_PER_IMAGE = 2
JITTER_SHARE, JITTER = 0.8, 0.4
GREY_SHARE = 0.2
CUTOUT_SIDE = 0.5
FILL = 128
DRAWS = 3 * OPERATIONS_PER_IMAGE + 4 + 1 + 2 + 3  # numbers that one image uses up


def draw_strong(n: int, seed: int) -> Tensor:
    """The chance of `n` images, float `[n, DRAWS]` in [0, 1)."""
    return torch.rand(n, DRAWS, generator=generator(seed, "strong view"))


def strong(image: Tensor, draws: Tensor) -> Tensor:
    """All steps of the strong view, in the order of the table above; flips come before it.

    Args:
        image: Bytes `[C, H, W]`.
        draws: The chance of this image, `[DRAWS]`.
    """
    numbers = iter(draws.tolist())
    for _ in range(OPERATIONS_PER_IMAGE):
        image = rand_augment(image, next(numbers), next(numbers), next(numbers))
    jittered = next(numbers) < JITTER_SHARE
    for change in (brightness, contrast, colour):
        factor = 1 + JITTER * (2 * next(numbers) - 1)
        image = change(image, factor) if jittered else image
    if next(numbers) < GREY_SHARE:
        image = grey(image)
    across, down = next(numbers), next(numbers)
    return cutout(image, across, down, [int(256 * number) for number in numbers])


def rand_augment(image: Tensor, which: float, strength: float, side: float) -> Tensor:
    """One operation of the table.

    Args:
        image: Bytes `[C, H, W]`.
        which: Chooses the operation, in [0, 1).
        strength: How much of the operation's range is used, in [0, 1).
        side: Below 0.5 the operation goes the other way, if it has two.
    """
    operation = OPERATIONS[int(which * len(OPERATIONS))]
    return operation(image, strength, -1.0 if side < 0.5 else 1.0)


def affine(
    image: Tensor, xx: float, xy: float, yx: float, yy: float, dx: float, dy: float
) -> Tensor:
    """Each pixel is taken from `(xx x + xy y + dx, yx x + yy y + dy)`, seen from the centre."""
    channels, height, width = image.shape
    y = torch.arange(height)[:, None] - (height - 1) / 2
    x = torch.arange(width)[None] - (width - 1) / 2
    column = (xx * x + xy * y + (dx + (width - 1) / 2)).round_()
    row = (yx * x + yy * y + (dy + (height - 1) / 2)).round_()
    outside = (column < 0) | (column >= width) | (row < 0) | (row >= height)
    place = (row * width + column).masked_fill_(outside, height * width).long()
    pixels = torch.cat([image.flatten(1), image.new_full((channels, 1), FILL)], dim=1)
    return pixels.gather(1, place.flatten().expand(channels, -1)).view_as(image)


def rotate(image: Tensor, degrees: float) -> Tensor:
    """Turns an image about its centre."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return affine(image, cos, -sin, sin, cos, 0, 0)


def cutout(image: Tensor, across: float, down: float, colours: list[int]) -> Tensor:
    """Paints a square of half the image's side over it.

    Args:
        image: Bytes `[C, H, W]`.
        across: Where its centre is, from 0 (left) to 1.
        down: Where its centre is, from 0 (top) to 1.
        colours: The colour, one byte for each channel; more are not used.
    """
    channels, height, width = image.shape
    left, top = int((across - CUTOUT_SIDE / 2) * width), int((down - CUTOUT_SIDE / 2) * height)
    right, bottom = left + int(CUTOUT_SIDE * width), top + int(CUTOUT_SIDE * height)
    image = image.clone()
    for channel in range(channels):
        image[channel, max(top, 0) : bottom, max(left, 0) : right] = colours[channel % len(colours)]
    return image


def _blend(change: Callable[[Tensor, float], Tensor]) -> Callable[[Tensor, float, float], Tensor]:
    """An enhancement by a factor of 0.1 to 1.9."""
    return lambda image, strength, side: change(image, 1 + side * 0.9 * strength)


# Ranges as in AutoAugment (Cubuk et al. 2019), whose operations RandAugment takes over.
OPERATIONS: tuple[Callable[[Tensor, float, float], Tensor], ...] = (
    lambda image, strength, side: image,
    lambda image, strength, side: autocontrast(image),
    lambda image, strength, side: equalize(image),
    lambda image, strength, side: rotate(image, side * 30 * strength),
    lambda image, strength, side: solarize(image, 256 - int(256 * strength)),
    lambda image, strength, side: posterize(image, 8 - round(4 * strength)),
    _blend(contrast),
    _blend(brightness),
    _blend(sharpness),
    _blend(colour),
    lambda image, strength, side: affine(image, 1, side * 0.3 * strength, 0, 1, 0, 0),
    lambda image, strength, side: affine(image, 1, 0, side * 0.3 * strength, 1, 0, 0),
    lambda image, strength, side: affine(
        image, 1, 0, 0, 1, side * 0.45 * strength * image.shape[2], 0
    ),
    lambda image, strength, side: affine(
        image, 1, 0, 0, 1, 0, side * 0.45 * strength * image.shape[1]
    ),
)
