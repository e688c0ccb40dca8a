"""Images for the page: addressed by row number, decoded here, sent at a bounded size.

No file is sent as it is. Images are decoded and encoded again, so that the page gets an image
whatever the file was, without metadata, and never a huge one.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Semaphore

import numpy as np
import numpy.typing as npt
from PIL import Image

from plusone.data.images import IMAGE_SUFFIXES, open_image
from plusone.data.shards import is_image, shard_of
from plusone.errors import InputError

SIDES = {"full": 4096, "large": 1600, "small": 360}
MAX_FILE_BYTES = 500_000_000
CACHE_BYTES = 64_000_000
LOSSLESS = 256  # images up to this side are sent without loss


class Pictures:
    """The images of the items of a table.

    Args:
        root: Folder of the files; None if the items are not images.
        ids: Path of each image below `root`.
    """

    def __init__(self, root: Path | None, ids: Sequence[str]) -> None:
        self._root = None if root is None else root.resolve()
        self._ids = ids
        self._cache: OrderedDict[tuple[int, str], tuple[bytes, str]] = OrderedDict()
        self._held = 0
        self._lock = Lock()
        self._decoding = Semaphore(2)  # a decoded image can be large

    def __bool__(self) -> bool:
        return self._root is not None

    def path(self, row: int) -> Path | None:
        """The file of an item, if it is an image inside the folder, links followed."""
        if self._root is None or not 0 <= row < len(self._ids):
            return None
        try:
            path = (self._root / self._ids[row]).resolve()
            inside = path.is_relative_to(self._root) and is_image(path)
        except (OSError, ValueError, RuntimeError):
            return None
        named = path.suffix.lower() in IMAGE_SUFFIXES or shard_of(path) is not None
        return path if inside and named else None

    def image(self, row: int, side: int) -> Image.Image | None:
        """An item's image of at most the given side, or None if it cannot be shown."""
        path = self.path(row)
        return None if path is None else thumbnail(path, side)

    def get(self, row: int, size: str) -> tuple[bytes, str] | None:
        """Bytes and media type of an item's image, or None if it cannot be shown."""
        with self._lock:
            if (row, size) in self._cache:
                self._cache.move_to_end((row, size))
                return self._cache[row, size]
        with self._decoding:
            image = self.image(row, SIDES[size])
            encoded = None if image is None else encode(image)
        if encoded is not None:
            with self._lock:
                self._keep((row, size), encoded)
        return encoded

    def _keep(self, key: tuple[int, str], encoded: tuple[bytes, str]) -> None:
        if key in self._cache:
            return
        self._cache[key] = encoded
        self._held += len(encoded[0])
        while self._held > CACHE_BYTES and len(self._cache) > 1:
            _, (old, _) = self._cache.popitem(last=False)
            self._held -= len(old)


class Scenes(Pictures):
    """The images of the embedded digits, generated when the first is requested."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(None, ids)
        self._scenes: npt.NDArray[np.uint8] | None = None

    def __bool__(self) -> bool:
        return True

    def image(self, row: int, side: int) -> Image.Image | None:
        number = self._ids[row].removeprefix("scene-") if 0 <= row < len(self._ids) else ""
        with self._lock:
            if self._scenes is None:
                from plusone.data.digits import load_digits_scenes  # it takes a second

                self._scenes = load_digits_scenes().images
        if not number.isdecimal() or int(number) >= len(self._scenes):
            return None
        return Image.fromarray(self._scenes[int(number)])


def thumbnail(path: Path, side: int) -> Image.Image | None:
    """An image file of at most the given side; None if it cannot be read."""
    try:
        if shard_of(path) is None and path.stat().st_size > MAX_FILE_BYTES:
            return None
        image = open_image(path, at_least=side)
    except (InputError, MemoryError, OSError):
        return None
    image.thumbnail((side, side))
    return image


def encode(image: Image.Image) -> tuple[bytes, str]:
    """An image as PNG if it is small, else as JPEG, and the media type."""
    stream, lossless = io.BytesIO(), max(image.size) <= LOSSLESS
    image.save(stream, format="PNG" if lossless else "JPEG", quality=88)
    return stream.getvalue(), "image/png" if lossless else "image/jpeg"
