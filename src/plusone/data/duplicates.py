"""Near duplicates: items that show the same, such as a photo saved again, resized or cropped.

By features: d is one minus the cosine of two items whose features were standardised. A pair is near
if d is at most `NEAR`, or at most `RATIO` times the distance from each of the two to its sixth
nearest item: what is near depends on how alike the items of a place are.

By images: difference hashes have 256 bits, almost half of them 1 in most photos. A pair is near if
they differ, as the images are or mirrored, in at most `DIFFERENT` of the rarer bits of each (0 or
1). An image with fewer than `PLAIN` of these is too plain to be told from others; equal files are
found all the same.

Items that pairs link are a group (`plusone.data.groups`). The bounds were chosen on copies of
photos (docs/evidence/duplicates.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from plusone.data.dataset import Dataset
from plusone.data.feature_store import FeatureStore
from plusone.data.groups import group_numbers
from plusone.data.images import open_image
from plusone.data.table import LabelTable

NEAR, RATIO, NEIGHBOUR = 0.05, 0.5, 6
FEWEST = 50  # items whose features tell what is near
SIDE, BRIGHTER = 16, 2  # of a hash: its side, and more levels of 255 than noise makes of even grey
DIFFERENT, PLAIN = 0.25, 16
DECODED = 4 * SIDE  # a sufficient side of an image to be hashed
BLOCK = 1 << 23  # distances computed at a time: 32 MB
SPACE = "difference hash 1"  # in the store of features; to be changed with the hash
PIECE = 256  # images after which their hashes are kept
THREADS = 4  # that decode
EXAMPLES, NAMED = 5, 4  # groups that are named, and items of each

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint8]
Pairs = Iterator[tuple[Ints, Ints]]
Tick = Callable[[int], None]


@dataclass(frozen=True)
class Duplicates:
    """Groups of near duplicates.

    Args:
        by: What they were found by, "features" or "images".
        number: Number of each item's group, `[N]`; where items have groups, of those united.
        groups: Rows of each group that has near duplicates, the largest first.
        divided: How many of these have items in several splits.
    """

    by: str
    number: Ints
    groups: tuple[Ints, ...]
    divided: int

    def names(self, table: LabelTable) -> npt.NDArray[np.str_]:
        """A name for the group of each item, `[N]`: that of its first item's group, or its id."""
        known = table.ids if table.groups is None else table.groups
        first = np.unique(self.number, return_index=True)[1]
        return np.asarray(known[first[self.number]])

    @property
    def sizes(self) -> list[int]:
        """Items of each group that has near duplicates."""
        return [len(rows) for rows in self.groups]

    def sentence(self) -> str:
        """How many there are, and what they were found by."""
        several = len(self.groups) > 1
        many = f"{len(self.groups)} groups of at most {self.sizes[0]}" if several else "one group"
        divided = f"; {self.divided} of these in several splits" if self.divided else ""
        return f"{sum(self.sizes)} items in {many}, by their {self.by}{divided}"

    def examples(self, table: LabelTable) -> list[list[str]]:
        """Names of some items of some groups."""
        return [table.ids[rows[:NAMED]].tolist() for rows in self.groups[:EXAMPLES]]

    def to_dict(self, table: LabelTable) -> dict[str, object]:
        """Plain values, with the names of some items."""
        return {
            "by": self.by,
            "items": sum(self.sizes),
            "groups": len(self.groups),
            "largest": max(self.sizes, default=0),
            "in_several_splits": self.divided,
            "examples": self.examples(table),
        }


def find_duplicates(dataset: Dataset, folder: Path, tick: Tick | None = None) -> Duplicates | None:
    """The near duplicates of a data set, by its features or else its images; None without both.

    Args:
        dataset: The items; those in one group already are not compared with each other.
        folder: Where hashes of image files are kept.
        tick: Called with numbers of items, which add up to twice the number of all.
    """
    table, x = dataset.table, dataset.features
    if x is not None and x.ndim < 4:
        return grouped(table, "features", near_features(np.asarray(x), tick))
    if x is not None:
        hashes = np.stack([image_hash(_picture(pixels)) for pixels in np.asarray(x)])
        return grouped(table, "images", near_hashes(hashes, tick))
    if table.root is None or not len(table):
        return None
    paths = [table.path(row) for row in range(len(table))]
    pairs = chain(near_hashes(file_hashes(paths, folder, tick), tick), equal_files(paths, folder))
    return grouped(table, "images", pairs)


def grouped(table: LabelTable, by: str, pairs: Pairs) -> Duplicates:
    """The groups of items that pairs link, where groups of the table do not already.

    Args:
        table: The items, with their groups and splits, if any.
        by: What the pairs were found by.
        pairs: Rows of near duplicates, some at a time.
    """
    n = len(table)
    given = np.arange(n) if table.groups is None else group_numbers(table.groups)
    number = given
    for first, second in pairs:
        ends = (number[first], number[second])
        if (ends[0] != ends[1]).any():
            graph = coo_array((np.ones(len(first), dtype=bool), ends), shape=(n, n))
            number = connected_components(graph, directed=False)[1].astype(np.int64)[number]
    number = group_numbers(number)
    united = np.bincount(number[np.unique(given, return_index=True)[1]]) > 1
    parts = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    groups = sorted((parts[each] for each in np.flatnonzero(united)), key=lambda part: -len(part))
    split = table.split
    divided = 0 if split is None else sum(len({*split[part].tolist()}) > 1 for part in groups)
    return Duplicates(by, number, tuple(groups), divided)


def near_features(x: npt.NDArray[np.generic], tick: Tick | None = None) -> Pairs:
    """Pairs of near rows of features `[N, D]` or `[N, T, D]`."""
    z = np.asarray(x, dtype=np.float32)
    z = z.mean(axis=1) if z.ndim == 3 else z
    if len(z) < FEWEST:
        return
    z = (z - z.mean(axis=0)) / (z.std(axis=0) + 1e-6)
    z /= np.linalg.norm(z, axis=1, keepdims=True) + 1e-12
    reach = np.empty(len(z), dtype=np.float32)
    for rows in _blocks(len(z), tick):
        apart = 1 - z[rows] @ z.T
        apart[np.arange(len(apart)), np.arange(rows.start, rows.stop)] = np.inf
        nearest = np.partition(apart, NEIGHBOUR - 1, axis=1)
        reach[rows] = RATIO * nearest[:, NEIGHBOUR - 1]
    for rows in _blocks(len(z), tick):
        most = np.maximum(np.minimum(reach[rows, None], reach[rows.start :]), NEAR)
        yield _above(1 - z[rows] @ z[rows.start :].T <= most, rows.start)


def near_hashes(hashes: Bits, tick: Tick | None = None) -> Pairs:
    """Pairs of near hashes `[N, 2, 32]`, see `image_hash`."""
    signs = 2 * np.unpackbits(hashes, axis=2).astype(np.float32) - 1
    n_bits = signs.shape[2]
    rarer = (n_bits - np.abs(signs[:, 0].sum(axis=1))) / 2
    most = np.where(rarer < PLAIN, -1, DIFFERENT * rarer)
    for rows in _blocks(len(signs), tick):
        one, others = signs[rows, 0], signs[rows.start :]
        # The product of signs is the number of equal bits less that of different ones.
        alike = np.maximum(one @ others[:, 0].T, one @ others[:, 1].T)
        different = (n_bits - alike) / 2
        yield _above(different <= np.minimum(most[rows, None], most[rows.start :]), rows.start)


def _blocks(n: int, tick: Tick | None) -> Iterator[slice]:
    """Rows whose distances to all `n` rows are one block."""
    each = max(1, BLOCK // max(n, 1))
    for start in range(0, n, each):
        rows = slice(start, min(start + each, n))
        yield rows
        if tick is not None:
            tick(rows.stop - rows.start)


def _above(near: npt.NDArray[np.bool_], start: int) -> tuple[Ints, Ints]:
    """The pairs of a block of rows and columns from `start` on, each once."""
    first, second = np.nonzero(near)
    other = second > first
    return start + first[other], start + second[other]


def image_hash(image: Image.Image) -> Bits:
    """The difference hash of an image, and of its mirror image, `[2, 32]`.

    Each of 16 x 16 bits says whether a place is clearly brighter than the one left of it. It
    depends little on size, compression and brightness.
    """
    small = image.convert("L").resize((SIDE + 1, SIDE), Image.Resampling.BOX)
    return np.stack([_brighter(small), _brighter(ImageOps.mirror(small))])


def _brighter(grey: Image.Image) -> Bits:
    values = np.asarray(grey, dtype=np.int16)
    return np.packbits(values[:, 1:] - values[:, :-1] > BRIGHTER)


def file_hashes(paths: Sequence[Path], folder: Path, tick: Tick | None = None) -> Bits:
    """The hashes of image files, `[N, 2, 32]`; they are kept in the store of features.

    Args:
        paths: The files.
        folder: Where the store is.
        tick: Called with the number of files just done.
    """
    store, parts = FeatureStore(folder), []
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(paths), PIECE):
            part = paths[start : start + PIECE]
            photos = store.photos(part)
            known = store.get(SPACE, (photo for photo in photos if photo))
            hashes = {row: known[photo] for row, photo in enumerate(photos) if photo in known}
            new = [row for row in range(len(part)) if row not in hashes]
            made = dict(zip(new, pool.map(_file_hash, [part[row] for row in new]), strict=True))
            store.put(SPACE, {p: one for row, one in made.items() if (p := photos[row])})
            hashes |= {row: one.astype(np.float32) for row, one in made.items()}
            parts += [hashes[row].astype(np.uint8) for row in range(len(part))]
            if tick is not None:
                tick(len(part))
    return np.stack(parts)


def equal_files(paths: Sequence[Path], folder: Path) -> Pairs:
    """Pairs of files with the same content; keys of it are kept in the store of features."""
    keys = [key or str(row) for row, key in enumerate(FeatureStore(folder).photos(paths))]
    _, first, same = np.unique(keys, return_index=True, return_inverse=True)
    yield first[same], np.arange(len(paths))


def _file_hash(path: Path) -> Bits:
    return image_hash(open_image(path, at_least=DECODED))


def _picture(pixels: npt.NDArray[np.generic]) -> Image.Image:
    """An image in memory, `[C, H, W]` in bytes."""
    values = np.asarray(pixels, dtype=np.uint8)
    return Image.fromarray(values[0] if len(values) == 1 else values[:3].transpose(1, 2, 0))
