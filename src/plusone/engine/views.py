"""Views: what training may do to an image before the model sees it.

| view | images | feature vectors |
| --- | --- | --- |
| `plain` | as they are | as they are |
| `weak` | flipped left to right with probability 0.5, if the recipe says `flip` | as they are |
| `strong` | flipped so, then changed as `plusone.data.augment` says | as they are |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.data.augment import draw_strong, strong
from plusone.seeds import generator

VIEWS = ("plain", "weak", "strong")


@dataclass(frozen=True)
class View:
    """The chance of one view, drawn for a whole epoch at once.

    An item's part depends on its place in the epoch alone, not on the batch it falls into.

    Args:
        mirrored: Which items are mirrored, bool `[n]`; None if the view never does.
        draws: The chance of the strong view, `[n, ...]`; None for other views.
    """

    mirrored: Tensor | None = None
    draws: Tensor | None = None

    def at(self, places: Tensor) -> View:
        """The chance of some places of the epoch alone."""
        mirrored = None if self.mirrored is None else self.mirrored[places]
        return View(mirrored, None if self.draws is None else self.draws[places])

    def one(self, image: Tensor, place: int) -> Tensor:
        """One image `[C, H, W]`, at a place of the epoch."""
        if self.mirrored is not None and self.mirrored[place]:
            image = image.flip(-1)
        return image if self.draws is None else strong(image, self.draws[place])

    def many(self, images: Tensor, places: slice) -> Tensor:
        """Images `[B, C, H, W]`, at successive places of the epoch."""
        if self.mirrored is not None:
            # Whole rows are copied: choosing byte by byte takes eight times as long.
            rows = torch.arange(len(images)) + len(images) * self.mirrored[places]
            images = torch.cat([images, images.flip(-1)]).index_select(0, rows)
        if self.draws is None:
            return images
        pairs = zip(images, self.draws[places], strict=True)
        return torch.stack([strong(image, draws) for image, draws in pairs])


def own_places(n: int, batch_size: int, share: tuple[int, int]) -> tuple[Tensor, int]:
    """Places of an epoch that one of several processes works on.

    Every batch is divided, so that together the processes see the batches of one.

    Args:
        n: Places of the epoch.
        batch_size: Of all processes together.
        share: The number of the process, and how many there are.

    Returns:
        The places, int64 `[m]`, and how many of them make a batch of this process.

    >>> own_places(7, 5, (0, 2)), own_places(7, 5, (1, 2))
    ((tensor([0, 1, 2, 5]), 3), (tensor([3, 4, 6]), 2))
    """
    rank, size = share
    parts = [part.tensor_split(size)[rank] for part in torch.split(torch.arange(n), batch_size)]
    return torch.cat(parts), max(1, len(torch.arange(batch_size).tensor_split(size)[rank]))


def make_views(names: Sequence[str], n: int, seed: int, *, flip: bool) -> list[View]:
    """Draws the chance of each view for `n` items, refusing names that do not exist."""
    for name in names:
        if name not in VIEWS:
            raise ValueError(f"unknown view {name!r}; known: {', '.join(VIEWS)}")
    return [_view(name, n, _derive(seed, number), flip) for number, name in enumerate(names)]


def _view(name: str, n: int, seed: int, flip: bool) -> View:
    if name == "plain":
        return View()
    mirrored = torch.rand(n, generator=generator(seed, name)) < 0.5 if flip else None
    return View(mirrored, draw_strong(n, seed) if name == "strong" else None)


def _derive(seed: int, number: int) -> int:
    """A seed of its own for each view of a batch, so that two weak views differ."""
    return seed + 7919 * number
