"""Pictures of where a model looked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw
from torch import Tensor
from torch.nn import functional

SIDE = 192
LINE = 16
HOT = (255, 150, 0)  # orange reads on dark and on bright pictures, and for colour-blind eyes


def strip(image: Tensor, maps: Tensor, titles: Sequence[str], name: str) -> Image.Image:
    """An image, and beside it once per class with the places that mattered shining through.

    Args:
        image: Bytes `[C, H, W]`.
        maps: `[n, h, w]`, one per class shown; each is scaled to its own highest value.
        titles: What to write below each.
        name: What to write below the image.
    """
    channels = image if image.shape[0] == 3 else image[:1].expand(3, -1, -1)
    base = _resized(channels.float(), "bilinear").permute(1, 2, 0).numpy()
    pictures = [base]
    for place in maps.float():
        low, high = place.min(), place.max()
        heat = _resized(((place - low) / (high - low).clamp_min(1e-12))[None], "bicubic")
        share = heat.clamp(0, 1).numpy()[0][..., None]
        pictures.append(base * (0.35 + 0.25 * share) + np.array(HOT) * (0.4 * share))
    sheet = Image.new("RGB", (len(pictures) * (SIDE + 4), SIDE + LINE), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (picture, title) in enumerate(zip(pictures, (name, *titles), strict=True)):
        left = number * (SIDE + 4)
        sheet.paste(_image(picture), (left, 0))
        draw.text((left + 2, SIDE + 2), _shortened(title), fill="black")
    return sheet


def _resized(x: Tensor, mode: str) -> Tensor:
    return functional.interpolate(x[None], size=(SIDE, SIDE), mode=mode, align_corners=False)[0]


def _image(values: npt.NDArray[np.floating]) -> Image.Image:
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


def _shortened(text: str, width: int = 30) -> str:
    plain = text.encode("latin-1", "replace").decode("latin-1")  # what the built-in font can draw
    return plain if len(plain) <= width else plain[: width - 1] + "."
