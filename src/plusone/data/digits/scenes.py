"""Scenes with their truth, split by split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plusone.data.digits.drawing import find_places, paste, render, uniform
from plusone.data.digits.look import LOOK, PLACES, Look
from plusone.data.digits.sources import (
    CLASSES,
    SIZE,
    SOURCE_SIDE,
    SPLITS,
    source_digits,
    source_indices,
)
from plusone.errors import InputError

CHUNK = 128  # scenes drawn together: whole chunks only, so that a larger split extends a smaller


@dataclass(frozen=True)
class Scenes:
    """Scenes of one split with a record of what was pasted.

    Attributes:
        images: uint8 [N, 64, 64] grey values.
        truth: uint8 [N, 10], 1 where the digit is on the scene.
        sources: int16 [N, 6] indices into scikit-learn's 1797 digits, -1 for an empty place.
        boxes: float32 [N, 6, 4] centre x, centre y, width, height of each digit in pixels.
    """

    images: npt.NDArray[np.uint8]
    truth: npt.NDArray[np.uint8]
    sources: npt.NDArray[np.int16]
    boxes: npt.NDArray[np.float32]


def _choose_classes(rng: np.random.Generator, look: Look) -> npt.NDArray[np.int64]:
    """Draws the classes of one chunk of scenes.

    A scene has a theme and a number k of classes; the classes are drawn one after the other
    without replacement with the theme's weights (the k largest of log weight + Gumbel noise).

    Returns:
        int64 [chunk, 6] classes, -1 for an empty place.
    """
    c = len(CLASSES)
    weights = np.tile(np.asarray(look.weights), (len(look.themes), 1))
    for t, group in enumerate(look.themes):
        weights[t, list(group)] *= look.theme_pull
    theme = rng.choice(len(look.themes), CHUNK, p=look.theme_shares)
    k = rng.choice(len(look.counts), CHUNK, p=look.counts) + 1
    order = np.argsort(-(np.log(weights[theme]) + rng.gumbel(size=(CHUNK, c))), axis=1)
    places = np.full((CHUNK, PLACES), -1, np.int64)
    filled = np.arange(len(look.counts)) < k[:, None]
    places[:, :-1][filled] = order[:, : len(look.counts)][filled]
    again = rng.random(CHUNK) < look.twice
    which = (rng.random(CHUNK) * k).astype(np.int64)
    places[again, -1] = order[np.arange(CHUNK), which][again]
    return places


def _chunks(split: int, seed: int, look: Look) -> Iterator[Scenes]:
    """Endless chunks of scenes of one split, from one generator seeded by (seed, split)."""
    rng = np.random.default_rng([seed, split])
    digits, target = source_digits()
    pool = source_indices()[split]
    pools = [pool[target[pool] == c] for c in range(len(CLASSES))]
    sizes = np.array([len(p) for p in pools])
    table = np.stack([np.resize(p, sizes.max()) for p in pools])
    side = int(np.ceil(look.height[1] * 1.2)) // 2 * 2
    axis = np.linspace(0, 3, SIZE, dtype=np.float32)
    hat = np.clip(1 - np.abs(axis[:, None] - np.arange(4, dtype=np.float32)), 0, None)
    while True:
        places = _choose_classes(rng, look)
        present = places >= 0
        shape = places.shape
        pick = (rng.random(shape) * sizes[places]).astype(np.int64)
        sources = np.where(present, table[places, pick], -1)
        height = uniform(rng, look.height, shape)
        width = height * uniform(rng, look.aspect, shape)
        boxes = find_places(rng, present, width, height, look)
        turn = uniform(rng, (-look.turn, look.turn), shape)
        shear = uniform(rng, (-look.shear, look.shear), shape)
        ink = uniform(rng, look.ink, shape)

        pieces = rng.integers(look.fragments[0], look.fragments[1] + 1, CHUNK)
        owner = np.repeat(np.arange(CHUNK), pieces)
        m = len(owner)
        torn = digits[rng.choice(pool, m)]
        span = rng.integers(2, 5, (m, 2))
        start = 1 + (rng.random((m, 2)) * (SOURCE_SIDE + 1 - span)).astype(np.int64)
        line = np.arange(SOURCE_SIDE + 2)
        keep = (line >= start[..., None]) & (line < (start + span)[..., None])
        torn = torn * keep[:, 0, :, None] * keep[:, 1, None, :]
        extent = uniform(rng, look.height, (m,))
        angle = uniform(rng, (-np.pi, np.pi), (m,))
        level = uniform(rng, look.fragment_ink, (m,))
        spot = uniform(rng, (0, SIZE), (m, 2))

        canvas = np.zeros((CHUNK, SIZE + 2 * side, SIZE + 2 * side), np.float32)
        patches = render(torn, extent, extent, angle, np.zeros_like(angle), side)
        paste(canvas, owner, patches * level[:, None, None], spot[:, 0], spot[:, 1])
        patches = render(
            digits[sources[present]],
            width[present],
            height[present],
            turn[present],
            shear[present],
            side,
        )
        patches *= ink[present][:, None, None]
        at = boxes[present]
        paste(canvas, np.nonzero(present)[0], patches, at[:, 0], at[:, 1])

        coarse = uniform(rng, (0, look.ground), (CHUNK, 4, 4))
        ground = hat @ coarse @ hat.T
        sigma = uniform(rng, look.noise, (CHUNK, 1, 1))
        grain = rng.standard_normal((CHUNK, SIZE, SIZE), dtype=np.float32) * sigma
        drawn = canvas[:, side:-side, side:-side]
        grey = ground + (1 - ground) * drawn + grain
        truth = np.zeros((CHUNK, len(CLASSES)), np.uint8)
        truth[np.nonzero(present)[0], places[present]] = 1
        boxes[~present] = 0
        images = np.round(np.clip(grey, 0, 1) * 255).astype(np.uint8)
        yield Scenes(images, truth, sources.astype(np.int16), boxes)


def compose(split: int, n: int, seed: int = 0, look: Look = LOOK) -> Scenes:
    """Composes the scenes of one split.

    Args:
        split: 0 train, 1 val, 2 test; decides which source digits are used.
        n: Number of scenes. A larger number extends a smaller one: the first scenes are equal.
        seed: Seed of the scenes.
        look: How the scenes look; the calibrated one unless told.

    Returns:
        `n` scenes with the record of their digits.

    Raises:
        InputError: If `split` is not 0, 1 or 2, or `n` or `seed` is negative.
    """
    if split not in range(len(SPLITS)):
        raise InputError(f"The split must be 0 (train), 1 (val) or 2 (test), not {split}.")
    if n < 0 or seed < 0:
        raise InputError(f"The number of scenes ({n}) and the seed ({seed}) must not be negative.")
    images = np.empty((n, SIZE, SIZE), np.uint8)
    truth = np.empty((n, len(CLASSES)), np.uint8)
    sources = np.empty((n, PLACES), np.int16)
    boxes = np.empty((n, PLACES, 4), np.float32)
    chunks = _chunks(split, seed, look)
    for start in range(0, n, CHUNK):
        chunk = next(chunks)
        stop = min(start + CHUNK, n)
        images[start:stop] = chunk.images[: stop - start]
        truth[start:stop] = chunk.truth[: stop - start]
        sources[start:stop] = chunk.sources[: stop - start]
        boxes[start:stop] = chunk.boxes[: stop - start]
    return Scenes(images, truth, sources, boxes)
