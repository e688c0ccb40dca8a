"""Views of images: as they are, weakly or strongly augmented.

The augmentation of an epoch is drawn at once, so an item's view depends on its position in the
epoch alone, not on its batch or on the number of processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from plusone.data.augment import draw_strong, strong
from plusone.parallel.sharing import Share
from plusone.seeds import generator

VIEWS = ("plain", "weak", "strong")
SEED_STEP = 7919  # between the seeds of a batch's views, so that two weak views differ


def draw_views(names: Sequence[str], n: int, seed: int, *, flip: bool) -> list[View]:
    """Draws the augmentation of each view for `n` items; refuses unknown names."""
    for name in names:
        if name not in VIEWS:
            raise ValueError(f"unknown view {name!r}; known: {', '.join(VIEWS)}")
    return [
        _draw(name, n, seed + SEED_STEP * number, flip=flip) for number, name in enumerate(names)
    ]


def _draw(name: str, n: int, seed: int, *, flip: bool) -> View:
    if name == "plain":
        return View()
    flipped = torch.rand(n, generator=generator(seed, name)) < 0.5 if flip else None
    return View(flipped, draw_strong(n, seed) if name == "strong" else None)


@dataclass(frozen=True)
class View:
    """The augmentation draws of one view, for a whole epoch.

    Args:
        flipped: Which items are flipped, bool `[n]`; None if none are.
        draws: The draws of the strong view, `[n, ...]`; None for other views.
    """

    flipped: Tensor | None = None
    draws: Tensor | None = None

    def at(self, places: Tensor) -> View:
        """The draws for some positions of the epoch."""
        flipped = None if self.flipped is None else self.flipped[places]
        return View(flipped, None if self.draws is None else self.draws[places])

    def of_item(self, place: int) -> ItemView:
        """The draws for one position of the epoch, in plain numbers for another process."""
        flipped = self.flipped is not None and bool(self.flipped[place])
        return ItemView(flipped, None if self.draws is None else tuple(self.draws[place].tolist()))

    def of_batch(self, images: Tensor, places: slice) -> Tensor:
        """The view of images `[B, C, H, W]`, at successive positions of the epoch."""
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

    def of_image(self, image: Tensor) -> Tensor:
        """The view of an image `[C, H, W]`."""
        image = image.flip(-1) if self.flipped else image
        return image if self.draws is None else strong(image, self.draws)


def own_places(n: int, batch_size: int, share: Share) -> tuple[Tensor, int]:
    """The positions of an epoch that one of several processes works on.

    Every piece of every batch is divided, so that together the processes see the batches of one.

    Args:
        n: Positions of the epoch.
        batch_size: Items of a batch, over all processes.
        share: Rank and number of processes, and pieces of a batch.

    Returns:
        The positions, int64 `[m]`, and the batch size of this process.

    >>> own_places(7, 5, Share(0, 2)), own_places(7, 5, Share(1, 2))
    ((tensor([0, 1, 2, 5]), 3), (tensor([3, 4, 6]), 2))
    >>> own_places(6, 6, Share(0, 2, pieces=2))
    (tensor([0, 1, 3, 4]), 4)
    """
    batches = torch.split(torch.arange(n), batch_size)
    places = [share.rows(len(batch)) + batch[0] for batch in batches]
    return torch.cat(places), max(1, len(share.rows(batch_size)))
