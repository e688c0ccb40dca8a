"""Images for the page: found by row number, decoded here, sent as pixels of a bounded size.

No file is ever sent as it is. What the page gets was decoded and encoded again, so it is an image
whatever the file was, it has no camera's notes in it, and a huge one arrives small.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Semaphore

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from plusone.data.formats.folders import IMAGE_KINDS, IMAGE_SUFFIXES
from plusone.io.readers import MAX_PIXELS, MAX_SIDE

SIDES = {"large": 1600, "small": 360}
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
        """The file of an item, if it is an image file inside the folder, links followed."""
        if self._root is None or not 0 <= row < len(self._ids):
            return None
        try:
            path = (self._root / self._ids[row]).resolve()
            inside = path.is_relative_to(self._root) and path.is_file()
        except (OSError, ValueError, RuntimeError):
            return None
        return path if inside and path.suffix.lower() in IMAGE_SUFFIXES else None

    def image(self, row: int, side: int) -> Image.Image | None:
        """An item's image of at most the given side, or None if it cannot be shown."""
        path = self.path(row)
        return None if path is None else open_image(path, side)

    def get(self, row: int, size: str) -> tuple[bytes, str] | None:
        """Bytes and media type of an item's image, or None if it cannot be shown."""
        with self._lock:
            if (row, size) in self._cache:
                self._cache.move_to_end((row, size))
                return self._cache[row, size]
        with self._decoding:
            image = self.image(row, SIDES[size])
            made = None if image is None else encode(image)
        if made is not None:
            with self._lock:
                self._keep((row, size), made)
        return made

    def _keep(self, key: tuple[int, str], made: tuple[bytes, str]) -> None:
        if key in self._cache:
            return
        self._cache[key] = made
        self._held += len(made[0])
        while self._held > CACHE_BYTES and len(self._cache) > 1:
            _, (old, _) = self._cache.popitem(last=False)
            self._held -= len(old)


class Scenes(Pictures):
    """The images of the embedded digits, made when the first is asked for.

    Args:
        ids: `scene-00000` and so on.
    """

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


def open_image(path: Path, side: int) -> Image.Image | None:
    """An image file of at most the given side; None if it cannot be read."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return None
        with Image.open(path, formats=IMAGE_KINDS) as opened:
            if opened.width * opened.height > MAX_PIXELS or max(opened.size) > MAX_SIDE:
                return None
            opened.draft("RGB", (side, side))
            image = ImageOps.exif_transpose(opened)
            image.thumbnail((side, side))
            return _eight_bits(image).convert("RGB")
    except Exception:  # broken files make decoders fail in many ways
        return None


def encode(image: Image.Image) -> tuple[bytes, str]:
    """An image as PNG if it is small, else as JPEG, and the media type."""
    stream, lossless = io.BytesIO(), max(image.size) <= LOSSLESS
    image.save(stream, format="PNG" if lossless else "JPEG", quality=88)
    return stream.getvalue(), "image/png" if lossless else "image/jpeg"


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scans of 16 bits a pixel, stretched over the range of a screen."""
    if image.mode[0] not in "IF":
        return image
    values = np.asarray(image, dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) * (255 / (high - low) if high > low else 0)
    return Image.fromarray(scaled.round().astype(np.uint8))
