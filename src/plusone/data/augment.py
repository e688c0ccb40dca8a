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

from plusone.seeds import generator

LEVELS = 256


def grey(image: Tensor) -> Tensor:
    """Brightness in every channel (ITU-R 601)."""
    if image.shape[0] != 3:
        return image
    return _luma(image).expand_as(image).contiguous()


def autocontrast(image: Tensor) -> Tensor:
    """Stretches each channel to the full range; a channel of one level stays."""
    tables = []
    for channel in image:
        low, high = (int(level) for level in torch.aminmax(channel))
        tables.append((_levels() - low) * (255 / (high - low)) if high > low else _levels())
    return _look_up(image, torch.stack(tables))


def equalize(image: Tensor) -> Tensor:
    """Makes every level about equally frequent, in each channel."""
    tables = []
    for channel in image.flatten(1):
        counts = torch.bincount(channel, minlength=LEVELS)
        last = int(channel.max())
        step = (channel.numel() - int(counts[last])) // 255
        below = counts.cumsum(0) - counts
        tables.append((below + step // 2) // step if step else _levels().long())
    return _look_up(image, torch.stack(tables))


def solarize(image: Tensor, threshold: int) -> Tensor:
    """Inverts the levels from a threshold on, 0 to 256."""
    levels = _levels()
    return _look_up(image, torch.where(levels >= threshold, 255 - levels, levels))


def posterize(image: Tensor, bits: int) -> Tensor:
    """Keeps the highest bits of each level."""
    return image & (256 - (1 << (8 - bits)))


def brightness(image: Tensor, factor: float) -> Tensor:
    """0 is black, 1 the image."""
    return _look_up(image, _levels() * factor)


def contrast(image: Tensor, factor: float) -> Tensor:
    """0 is the mean grey, 1 the image."""
    luma = _luma(image) if image.shape[0] == 3 else image
    # Whole numbers have the same sum in any order, so the mean is the same on any machine.
    mean = int(luma.sum() / luma.numel() + 0.5)
    return _look_up(image, mean + (_levels() - mean) * factor)


def colour(image: Tensor, factor: float) -> Tensor:
    """0 is grey, 1 the image."""
    if image.shape[0] != 3:
        return image
    return _bytes(torch.lerp(_luma(image).float(), image.float(), factor))


def sharpness(image: Tensor, factor: float) -> Tensor:
    """0 is smoothed, 1 the image, above is sharper; the outermost pixels stay."""
    if min(image.shape[1:]) < 3:
        return image
    pixels = image.float()
    inner = pixels[:, 1:-1, 1:-1]
    # A 3 x 3 kernel of ones with a 5 in its middle, over 13: sums of rows, then of columns.
    rows = pixels[:, :-2] + pixels[:, 1:-1] + pixels[:, 2:]
    around = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]
    smooth = ((around + 4 * inner) / 13).round_()
    result = image.clone()
    result[:, 1:-1, 1:-1] = _bytes(torch.lerp(smooth, inner, factor))
    return result


def _luma(image: Tensor) -> Tensor:
    """Brightness, bytes `[1, H, W]`, in whole numbers so that it is exact."""
    red, green, blue = image.int()
    total: Tensor = 19595 * red + 38470 * green + 7471 * blue + 32768
    return (total >> 16).to(torch.uint8)[None]


def _levels() -> Tensor:
    return torch.arange(LEVELS, dtype=torch.float64)


def _bytes(values: Tensor) -> Tensor:
    return values.clamp_(0, 255).to(torch.uint8)


def _look_up(image: Tensor, table: Tensor) -> Tensor:
    """Replaces each level by that of a table `[256]`, or of one for each channel `[C, 256]`."""
    entries = _bytes(table).expand(len(image), LEVELS)
    return entries.gather(1, image.flatten(1).long()).view_as(image)


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
