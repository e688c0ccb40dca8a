"""Multi-label scenes made of scikit-learn's handwritten digits: a data set without a download.

Every scene is a 64 x 64 grey image with a few handwritten digits on a cluttered background; its
labels are the digits on it. The digits are real handwriting (1797 images of 8 x 8 pixels, shipped
with scikit-learn), and all true labels are known by construction, so that the cost of observing
only one positive label per item can be measured.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812

from plusone.errors import InputError
from plusone.io.files import cache_folder, replacing
from plusone.io.keys import content_key

CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPLITS = ("train", "val", "test")
SIZE = 64
SOURCE_SIDE = 8
SPLIT_SEED = 1797  # the assignment of source digits to splits, the same for every scene seed
SHARES = (0.6, 0.15, 0.25)  # of each class's source digits


@lru_cache(maxsize=1)
def source_digits() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The source digits: float32 [1797, 10, 10] in 0-1 with an empty border, int64 [1797]."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.pad(np.asarray(bunch.images, np.float32) / 16.0, ((0, 0), (1, 1), (1, 1)))
    return images, np.asarray(bunch.target, np.int64)


def source_indices() -> tuple[npt.NDArray[np.int64], ...]:
    """Sorted indices of the digits of scikit-learn that train, val and test may use.

    The assignment is stratified by class and does not depend on the scene seed, so that a test
    digit is never a training digit of any seed.
    """
    target = source_digits()[1]
    rng = np.random.default_rng(SPLIT_SEED)
    parts: list[list[npt.NDArray[np.int64]]] = [[], [], []]
    for c in range(len(CLASSES)):
        members = rng.permutation(np.flatnonzero(target == c))
        cuts = np.round(np.cumsum(SHARES[:-1]) * len(members)).astype(int)
        for part, piece in zip(parts, np.split(members, cuts), strict=True):
            part.append(piece)
    return tuple(np.sort(np.concatenate(part)) for part in parts)


@dataclass(frozen=True)
class Look:
    """The parameters of the appearance of a scene; part of the cache key.

    Attributes:
        counts: Probability of 1, 2, ... 5 distinct classes on a scene.
        twice: Chance that one more digit of a class already on the scene is added.
        weights: Relative weight of each class, before the theme.
        themes: Groups of classes that tend to appear together.
        theme_pull: Factor on the weight of a class that belongs to the scene's theme.
        aspect: Smallest and largest width / height factor.
        turn: Largest rotation in radians, either way.
        shear: Largest horizontal shear, either way.
        ink: Smallest and largest brightness of a digit above the background.
        overlap: Share of a digit's box that others may cover before another position is tried.
        tries: Positions tried per digit; the least covered one is used.
        fragments: Smallest and largest number of clutter pieces (torn from digits).
        fragment_ink: Smallest and largest brightness of a clutter piece.
        ground: Largest brightness of the uneven background.
        noise: Smallest and largest standard deviation of the pixel noise.
    """

    counts: tuple[float, ...] = (0.19, 0.32, 0.28, 0.14, 0.07)
    twice: float = 0.2
    weights: tuple[float, ...] = (0.95, 2.6, 0.75, 1.7, 0.62, 1.0, 0.42, 2.0, 1.2, 0.8)
    themes: tuple[tuple[int, ...], ...] = ((1, 7, 4), (3, 8, 5), (0, 6, 9, 2), ())
    theme_shares: tuple[float, ...] = (0.3, 0.25, 0.2, 0.25)
    theme_pull: float = 5.0
    height: tuple[float, float] = (16.0, 29.0)
    aspect: tuple[float, float] = (0.8, 1.15)
    turn: float = 0.2
    shear: float = 0.15
    ink: tuple[float, float] = (0.36, 0.95)
    overlap: float = 0.12
    tries: int = 5
    fragments: tuple[int, int] = (2, 5)
    fragment_ink: tuple[float, float] = (0.2, 0.65)
    ground: float = 0.25
    noise: tuple[float, float] = (0.02, 0.085)


LOOK = Look()
PLACES = len(LOOK.counts) + 1


def render(
    digits: npt.NDArray[np.float32],
    width: npt.NDArray[np.float32],
    height: npt.NDArray[np.float32],
    turn: npt.NDArray[np.float32],
    shear: npt.NDArray[np.float32],
    side: int,
) -> npt.NDArray[np.float32]:
    """Draws digits [M, 10, 10], 8 x 8 with an empty border, into patches [M, side, side].

    Each is enlarged to its width and height in pixels [M], turned (radians) and sheared
    horizontally, by bilinear sampling.
    """
    m = len(digits)
    axis = np.arange(side, dtype=np.float32) - np.float32((side - 1) / 2)
    v, u = axis[None, :, None], axis[None, None, :]
    cos, sin = np.cos(turn)[:, None, None], np.sin(turn)[:, None, None]
    row = (cos * v - sin * u) * (SOURCE_SIDE / height)[:, None, None]
    column = (cos * u + sin * v) * (SOURCE_SIDE / width)[:, None, None]
    column += shear[:, None, None] * row
    middle, last = np.float32((SOURCE_SIDE + 1) / 2), np.float32(SOURCE_SIDE + 1 - 1e-3)
    row, column = np.clip(row + middle, 0, last), np.clip(column + middle, 0, last)
    top, left = row.astype(np.int32), column.astype(np.int32)
    row -= top
    column -= left
    stride = SOURCE_SIDE + 2
    at = top * stride + left + (np.arange(m, dtype=np.int32) * stride**2)[:, None, None]
    flat = digits.reshape(-1)
    upper = flat[at] * (1 - column) + flat[at + 1] * column
    lower = flat[at + stride] * (1 - column) + flat[at + stride + 1] * column
    drawn: npt.NDArray[np.float32] = upper * (1 - row) + lower * row
    return drawn


def uniform(
    rng: np.random.Generator, bounds: tuple[float, float], shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    """Uniform float32 numbers between two bounds."""
    return rng.uniform(bounds[0], bounds[1], shape).astype(np.float32)


def find_places(
    rng: np.random.Generator,
    present: npt.NDArray[np.bool_],
    width: npt.NDArray[np.float32],
    height: npt.NDArray[np.float32],
    look: Look,
) -> npt.NDArray[np.float32]:
    """Chooses a position for every digit: the first try with little overlap, else the least.

    `present` is true where there is a digit [chunk, 6]; widths and heights are in pixels. Returns
    float32 [chunk, 6, 4]: centre x, centre y, width, height.
    """
    tries = rng.random((*present.shape, look.tries, 2), dtype=np.float32)
    half = np.stack([width, height], -1)[:, :, None, :] / 2
    inset = 0.85 * half  # the outermost columns of a digit are mostly empty
    centres = inset + tries * (SIZE - 2 * inset)
    boxes = np.concatenate([centres[:, :, 0], 2 * half[:, :, 0]], -1)
    for j in range(1, PLACES):
        centre = centres[:, j, :, None, :]  # [chunk, tries, 1, 2]
        other = boxes[:, None, :j]
        reach = half[:, j, :, None, :] + other[..., 2:] / 2 - np.abs(centre - other[..., :2])
        smaller = np.minimum(2 * half[:, j, :, None, :], other[..., 2:])
        common = np.clip(np.minimum(reach, smaller), 0, None).prod(-1)
        area = np.minimum((width * height)[:, j, None, None], other[..., 2:].prod(-1))
        cover = (common / area * present[:, None, :j]).max(-1)
        best = np.where(cover <= look.overlap, -1.0, cover).argmin(-1)
        boxes[:, j, :2] = centres[np.arange(len(present)), j, best]
    return boxes.astype(np.float32)


def paste(
    canvas: npt.NDArray[np.float32],
    scene: npt.NDArray[np.int64],
    patches: npt.NDArray[np.float32],
    x: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
) -> None:
    """Pastes patches [M, side, side] onto canvases [chunk, 64 + 2 side, ...] by maximum."""
    side = patches.shape[-1]
    tops = np.round(y - side / 2).astype(int) + side
    lefts = np.round(x - side / 2).astype(int) + side
    for i, top, left, patch in zip(
        scene.tolist(), tops.tolist(), lefts.tolist(), patches, strict=True
    ):
        window = canvas[i, top : top + side, left : left + side]
        np.maximum(window, patch, out=window)


CHUNK = 128  # scenes drawn together; always whole chunks, so that a larger split extends a smaller


@dataclass(frozen=True)
class Scenes:
    """Scenes of one split, with the digits that were pasted.

    Attributes:
        images: uint8 [N, 64, 64] grey values.
        truth: uint8 [N, 10], 1 where the digit is on the scene.
        sources: int16 [N, 6] indices into scikit-learn's 1797 digits, -1 for an unused position.
        boxes: float32 [N, 6, 4] centre x, centre y, width, height of each digit in pixels.
    """

    images: npt.NDArray[np.uint8]
    truth: npt.NDArray[np.uint8]
    sources: npt.NDArray[np.int16]
    boxes: npt.NDArray[np.float32]


def _choose_classes(rng: np.random.Generator, look: Look) -> npt.NDArray[np.int64]:
    """Draws the classes of one chunk of scenes [chunk, 6], -1 for an unused position.

    A scene has a theme and a number k of classes; the classes are drawn one after the other
    without replacement with the theme's weights (the k largest of log weight + Gumbel noise).
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
    """Composes `n` scenes of one split (0 train, 1 val, 2 test), which determines their digits.

    A larger number extends a smaller one: the first scenes are equal.
    """
    if split not in range(len(SPLITS)):
        raise InputError(f"The split must be 0 (train), 1 (val) or 2 (test), not {split}.")
    if n < 0 or seed < 0:
        raise InputError(f"The number of scenes ({n}) and the seed ({seed}) must not be negative.")
    chunks = islice(_chunks(split, seed, look), max(1, -(-n // CHUNK)))
    arrays = zip(*(vars(chunk).values() for chunk in chunks), strict=True)
    return Scenes(*(np.concatenate(parts)[:n] for parts in arrays))


N_TRAIN, N_VAL, N_TEST = 4000, 600, 1500
FORMAT = 1  # increase it whenever the code draws other pixels for the same look


@dataclass(frozen=True)
class Digits:
    """The scenes of all three splits, in the order train, val, test.

    Attributes:
        split: int8 [N]: 0 train, 1 val, 2 test.
    """

    images: npt.NDArray[np.uint8]
    truth: npt.NDArray[np.uint8]
    split: npt.NDArray[np.int8]
    classes: tuple[str, ...] = CLASSES


def _cache_file(folder: Path | None, sizes: tuple[int, ...], seed: int, look: Look) -> Path | None:
    """The cache file of these scenes; None if there is no cache folder."""
    if folder is None and (folder := cache_folder()) is None:
        return None
    settings = {
        "format": FORMAT,
        "numpy": np.__version__,
        "sizes": sizes,
        "seed": seed,
        "look": asdict(look),
        "source split": (SPLIT_SEED, SHARES),
        "chunk": CHUNK,
    }
    key = content_key(json.dumps(settings, sort_keys=True))
    return folder / f"digits-v{FORMAT}-{key}.npz"


def _read_cache(file: Path, split: npt.NDArray[np.int8]) -> Digits | None:
    """The cached scenes; None if the file is missing or cannot be used."""
    n = len(split)
    try:
        with np.load(file, allow_pickle=False) as stored:
            images, truth, stored_split = stored["images"], stored["truth"], stored["split"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    good = (
        (images.dtype == np.uint8 and images.shape == (n, SIZE, SIZE))
        and (truth.dtype == np.uint8 and truth.shape == (n, len(CLASSES)))
        and (stored_split.dtype == np.int8 and np.array_equal(stored_split, split))
    )
    return Digits(images, truth, stored_split) if good else None


def load_digits_scenes(
    n_train: int = N_TRAIN,
    n_val: int = N_VAL,
    n_test: int = N_TEST,
    seed: int = 0,
    cache: Path | None = None,
    look: Look = LOOK,
) -> Digits:
    """Composes the scenes of the three splits, or reads them from the cache.

    Each split has its own generator, seeded by (seed, split): changing the size of one split
    leaves the others as they are, and a larger split begins with the scenes of a smaller one.

    The split of the source digits does not depend on the seed. The folder of the cache is that of
    `plusone.io.files.cache_folder` by default. A cache that is damaged or cannot be written is
    never an error.
    """
    sizes = (n_train, n_val, n_test)
    if min(*sizes, seed) < 0:
        raise InputError(f"The sizes {sizes} and the seed {seed} must not be negative.")
    split = np.repeat(np.arange(len(SPLITS), dtype=np.int8), sizes)
    file = _cache_file(cache, sizes, seed, look)
    if file is not None and (cached := _read_cache(file, split)) is not None:
        return cached
    parts = [compose(i, n, seed, look) for i, n in enumerate(sizes)]
    scenes = Digits(
        np.concatenate([p.images for p in parts]),
        np.concatenate([p.truth for p in parts]),
        split,
    )
    if file is not None:
        with suppress(OSError), replacing(file) as temporary, temporary.open("wb") as stream:
            np.savez(stream, images=scenes.images, truth=scenes.truth, split=split)
    return scenes


FILTER_SIDE = 9


def random_conv_features(
    images: npt.NDArray[np.uint8], dim: int = 1024, seed: int = 0, batch: int = 64
) -> npt.NDArray[np.float32]:
    """Features from a fixed random convolution, for training a linear model.

    Each image is standardised (mean 0, standard deviation 1) and downsampled by 2; smooth random
    9 x 9 filters with mean 0 and norm 1 are applied and pooled over the whole image. The first
    half of the features are the largest responses of the filters, the second half the means of
    their responses above a threshold (ReLU). Nothing is learned from data.

    Args:
        images: uint8 [N, H, W], H and W at least 18.
        dim: Number of features, even; the result is float32 [N, dim].
        seed: Seed of the filters.
        batch: Number of images processed at once, which bounds the memory.
    """
    if images.ndim != 3 or min(images.shape[1:]) < 2 * FILTER_SIDE:
        raise InputError(
            f"The images must be [N, H, W] with sides of at least {2 * FILTER_SIDE} pixels, "
            f"not {list(images.shape)}."
        )
    if dim < 2 or dim % 2:
        raise InputError(f"The number of features must be even and positive, not {dim}.")
    rng = np.random.default_rng(seed)
    raw = torch.from_numpy(
        rng.standard_normal((dim // 2, 1, FILTER_SIDE + 2, FILTER_SIDE + 2), dtype=np.float32)
    )
    filters = F.avg_pool2d(raw, 3, 1)  # smooth: neighbouring weights are similar
    filters -= filters.mean((2, 3), keepdim=True)
    filters /= filters.flatten(1).norm(dim=1)[:, None, None, None]
    features = np.empty((len(images), dim), np.float32)
    with torch.no_grad():
        for start in range(0, len(images), batch):
            x = torch.from_numpy(np.ascontiguousarray(images[start : start + batch])).float()
            x = x - x.mean((1, 2), keepdim=True)
            x = x / (x.flatten(1).std(1)[:, None, None] + 1.0)
            response = F.conv2d(F.avg_pool2d(x[:, None], 2), filters, stride=2)
            pooled = [response.amax((2, 3)), F.relu(response - 1.0).mean((2, 3))]
            features[start : start + batch] = torch.cat(pooled, 1).numpy()
    return features
