"""Views of images: as they are, weakly or strongly augmented, or random crops of them.

The augmentation of an epoch is drawn at once, so an item's view depends on its position in the
epoch alone, not on its batch or on the number of processes. Whoever draws the views of an epoch
again knows which part of its image each one shows (`View.boxes`).

A crop has a share of the image's area that is drawn uniformly from `CROP_AREA`, and an aspect ratio
drawn from `CROP_ASPECT`, evenly in its logarithm; it lies anywhere in the image. It is cut from the
image at the model's size, whether that comes from a file or from memory, and resized to that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from plusone.data.augment import draw_strong, strong
from plusone.parallel.division import Share
from plusone.seeds import generator

VIEWS = ("plain", "weak", "strong", "crop")
SEED_STEP = 7919  # between the seeds of a batch's views, so that two weak views differ
CROP_AREA = (0.25, 1.0)
CROP_ASPECT = (3 / 4, 4 / 3)


def draw_views(names: Sequence[str], n: int, seed: int, *, flip: bool) -> list[View]:
    """Draws the augmentation of each view for `n` items; refuses unknown names."""
    drawn = []
    for number, name in enumerate(names):
        if name not in VIEWS:
            raise ValueError(f"unknown view {name!r}; known: {', '.join(VIEWS)}")
        own, flips = seed + SEED_STEP * number, flip and name != "plain"
        view = View(
            flipped=torch.rand(n, generator=generator(own, name)) < 0.5 if flips else None,
            draws=draw_strong(n, own) if name == "strong" else None,
            cropped=_draw_crops(n, own) if name == "crop" else None,
        )
        drawn.append(view)
    return drawn


def _draw_crops(n: int, seed: int) -> Tensor:
    """Left, top, right and bottom of random crops, float `[n, 4]` in [0, 1]."""
    area, aspect, across, down = torch.rand(n, 4, generator=generator(seed, "crops")).T
    least, most = torch.tensor(CROP_AREA)
    narrow, wide = torch.tensor(CROP_ASPECT).log()
    area, aspect = torch.lerp(least, most, area), torch.lerp(narrow, wide, aspect).exp()
    width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    left, top = across * (1 - width), down * (1 - height)
    return torch.stack([left, top, left + width, top + height], 1)


@dataclass(frozen=True)
class View:
    """The augmentation draws of one view, for a whole epoch.

    Args:
        flipped: Which items are flipped, bool `[n]`; None if none are.
        draws: The draws of the strong view, `[n, ...]`; None for other views.
        cropped: Left, top, right and bottom of what is shown, `[n, 4]`; None if it is everything.
    """

    flipped: Tensor | None = None
    draws: Tensor | None = None
    cropped: Tensor | None = None

    def at(self, places: Tensor) -> View:
        """The draws for some positions of the epoch."""
        parts = (self.flipped, self.draws, self.cropped)
        return View(*(None if part is None else part[places] for part in parts))

    def boxes(self, n: int) -> Tensor:
        """Where the `n` items show their image, `[n, 4]`, see `plusone.types.Batch.boxes`."""
        whole = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(n, 4)
        boxes = whole if self.cropped is None else self.cropped
        if self.flipped is None:
            return boxes
        return torch.where(self.flipped[:, None], boxes[:, [2, 1, 0, 3]], boxes)

    def of_item(self, place: int) -> ItemView:
        """The draws for one position of the epoch, in plain numbers for another process."""
        flipped = self.flipped is not None and bool(self.flipped[place])
        draws = None if self.draws is None else tuple(self.draws[place].tolist())
        box = None if self.cropped is None else tuple(self.cropped[place].tolist())
        return ItemView(flipped, draws, box)

    def of_batch(self, images: Tensor, places: slice) -> Tensor:
        """The view of images `[B, C, H, W]`, at successive positions of the epoch."""
        if self.cropped is not None:
            pairs = zip(images, self.cropped[places].tolist(), strict=True)
            images = torch.stack([_part(image, box) for image, box in pairs])
        if self.flipped is not None:
            # Selecting whole rows is eight times as fast as `torch.where`.
            rows = torch.arange(len(images)) + len(images) * self.flipped[places]
            images = torch.cat([images, images.flip(-1)]).index_select(0, rows)
        if self.draws is None:
            return images
        pairs = zip(images, self.draws[places].tolist(), strict=True)
        return torch.stack([strong(image, draws) for image, draws in pairs])


class ItemView(NamedTuple):
    """The augmentation draws of one view of one item, see `View`."""

    flipped: bool
    draws: tuple[float, ...] | None
    box: tuple[float, ...] | None

    def of_image(self, image: Tensor) -> Tensor:
        """The view of an image `[C, H, W]`."""
        image = image if self.box is None else _part(image, self.box)
        image = image.flip(-1) if self.flipped else image
        return image if self.draws is None else strong(image, self.draws)


def _part(image: Tensor, box: Sequence[float]) -> Tensor:
    """A part of an image `[C, H, W]` in bytes, resized to all of it; edges go to whole pixels."""
    height, width = image.shape[1:]
    left, top, right, bottom = (
        round(edge * side) for edge, side in zip(box, (width, height) * 2, strict=True)
    )
    part = image[:, top : max(bottom, top + 1), left : max(right, left + 1)]
    if part.shape == image.shape:
        return image
    return interpolate(
        part[None], size=(height, width), mode="bilinear", antialias=True, align_corners=False
    )[0]


def own_places(n: int, batch_size: int, share: Share) -> tuple[Tensor, int]:
    """The positions of an epoch that one of several processes works on.

    Every batch is divided, so that together the processes see the batches of one.

    Args:
        n: Positions of the epoch.
        batch_size: Items of a batch, over all processes.
        share: Rank and number of processes.

    Returns:
        The positions, int64 `[m]`, and the batch size of this process.

    >>> own_places(7, 5, Share(0, 2)), own_places(7, 5, Share(1, 2))
    ((tensor([0, 1, 2, 5]), 3), (tensor([3, 4, 6]), 2))
    """
    batches = torch.split(torch.arange(n), batch_size)
    places = [share.rows(len(batch)) + batch[0] for batch in batches]
    return torch.cat(places), max(1, len(share.rows(batch_size)))
