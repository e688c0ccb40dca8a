"""Changes of an image's colours, on bytes: the operations that RandAugment is made of.

Each takes one image, bytes `[C, H, W]`, and gives one of the same shape. The results are those of
Pillow's functions of the same names, up to one level where Pillow rounds otherwise. With one
channel there is no colour to change, and `colour` and `grey` give the image back.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
