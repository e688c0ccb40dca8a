"""Image files: opened in the same way everywhere, decoded to tensors, and cached on disk.

Training, the report and the review page all use `open_image`, so that people see the same pixels
as the model.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError, features

from plusone.data.shards import read_member, shard_of
from plusone.errors import InputError
from plusone.io.files import replacing, reserve
from plusone.io.keys import content_key, file_state
from plusone.io.readers import MAX_PIXELS, MAX_SIDE

if TYPE_CHECKING:  # torch takes a second to load, and pages need no tensors
    from torch import Tensor

# What some installations can decode: suffix -> kind. Pillow has AVIF from 11.3 on, in most builds;
# the package pillow-heif (extra `heic`) brings HEIC, the format of phones.
SOMETIMES = {".avif": "AVIF", ".heic": "HEIC", ".heif": "HEIC", ".hif": "HEIC"}
MORE_KINDS = {"AVIF"} if features.check("avif") else set()
MORE_KINDS |= {"HEIC"} if find_spec("pillow_heif") is not None else set()
NEEDED = {"AVIF": "a newer Pillow: pip install -U pillow", "HEIC": "pip install pillow-heif"}

# The kinds that are decoded, whatever the file name. Pillow knows more; one of them (EPS) would run
# another program on an untrusted file.
IMAGE_KINDS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP", *sorted(MORE_KINDS))
IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff"),
    *(suffix for suffix, kind in SOMETIMES.items() if kind in MORE_KINDS),
)
NO_FILE = Path("image")  # stands for the file in messages about its content
CROPPED = 256 / 224  # short side over the crop's side, the common choice for ImageNet models
STRIP = 2**20  # pixels of a deep image that are scaled at a time
VERSION = 2  # of the cache of decoded images; increase it when decoding changes

# Pillow warns from half of `MAX_PIXELS` on; that limit is the one that counts here.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # on odd EXIF data

Aspect = Literal["stretch", "crop"]
# Suffixes that are no part of a name, where an item is looked for in another file: of images,
# sounds, arrays and annotations.
SUFFIXES = {*IMAGE_SUFFIXES, *SOMETIMES, ".wav", ".flac", ".mp3", ".ogg", ".npy", ".npz", ".txt"}
SUFFIXES |= {".xml", ".json"}
Crops = Literal["one", "five"]
# Parts of an image that a model is shown: left, top, right, bottom as shares of its sides. "five"
# is the whole and a tile of 60 % of each side in each corner.
CROPS: Mapping[Crops, tuple[tuple[float, float, float, float], ...]] = {
    "one": ((0, 0, 1, 1),),
    "five": ((0, 0, 1, 1), (0, 0, 0.6, 0.6), (0.4, 0, 1, 0.6), (0, 0.4, 0.6, 1), (0.4, 0.4, 1, 1)),
}


def open_image(
    file: Path | bytes, *, at_least: int | None = None, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """An image file as RGB, 8 bits per channel, upright.

    The EXIF orientation is applied; palettes, grey and CMYK become RGB; transparency is dropped;
    the first frame of an animation is used. 16-bit grey is scaled from its full range (0 to 65,535,
    by 1 / 257), whatever values the image uses.

    Args:
        file: The file, or its content.
        at_least: A sufficient side: a JPEG may be decoded at a half, a quarter or an eighth of its
            size, which is faster, as long as no side falls below it.
        max_pixels: A lower limit than `MAX_PIXELS`.

    Raises:
        InputError: The file cannot be decoded, or exceeds `max_pixels` or `MAX_SIDE`.
    """
    with _opened(file, min(max_pixels, MAX_PIXELS)) as opened:
        if at_least is not None:
            opened.draft("RGB", (at_least, at_least))
        # Pillow before 11 opens 16-bit PNG as 32-bit integers.
        sixteen_bits = opened.mode[:4] == "I;16" or (opened.mode == "I" and opened.format == "PNG")
        image = _eight_bits(_upright(opened), sixteen_bits)
        return image if image.mode == "RGB" else image.convert("RGB")


def decode(path: Path, size: int, aspect: Aspect = "stretch") -> Tensor:
    """Reads one image as bytes `[3, size, size]`; resizing antialiases.

    The aspect "stretch" resizes to the square without keeping the aspect ratio, as the published
    protocol does; "crop" resizes the central square of 224 / 256 of the short side.
    """
    return decode_crops(path, size, "one", aspect)[0]


def without_suffix(name: str) -> str:
    """The name of a file without its suffix, if that is a known one; others are part of the name.

    >>> without_suffix("a.b.JPG"), without_suffix("rec0.1")
    ('a.b', 'rec0.1')
    """
    stem, _, suffix = name.rpartition(".")
    return stem if stem and f".{suffix.lower()}" in SUFFIXES else name


def decode_crops(
    file: Path | bytes,
    size: int,
    crops: Crops,
    aspect: Aspect = "stretch",
    max_pixels: int = MAX_PIXELS,
) -> Tensor:
    """Reads one image as bytes `[V, 3, size, size]`, one for each of its crops.

    The file is decoded once. Crops are cut at the resolution of the file and resized after that.
    """
    import torch

    pixels = torch.from_numpy(np.array(open_image(file, max_pixels=max_pixels))).permute(2, 0, 1)
    return cut(pixels[None], crops, (size, size), aspect)[0]


def cut(images: Tensor, crops: Crops, size: tuple[int, int], aspect: Aspect = "stretch") -> Tensor:
    """The crops of images `[B, C, H, W]` in bytes, resized to `[B, V, C, *size]`."""
    import torch
    from torch.nn import functional

    parts = []
    for left, top, right, bottom in regions(
        images.shape[3], images.shape[2], crops, size[0], aspect
    ):
        part = images[:, :, top:bottom, left:right]
        if tuple(part.shape[2:]) != size:
            part = functional.interpolate(
                part, size=size, mode="bilinear", antialias=True, align_corners=False
            )
        parts.append(part)
    return torch.stack(parts, 1)


def regions(
    width: int, height: int, crops: Crops, side: int, aspect: Aspect = "stretch"
) -> tuple[tuple[int, int, int, int], ...]:
    """Left, top, right and bottom of what a model that takes squares is shown of an image.

    >>> regions(500, 300, "five", 224)[1:]
    ((0, 0, 300, 180), (200, 0, 500, 180), (0, 120, 300, 300), (200, 120, 500, 300))
    >>> regions(500, 300, "five", 224, "crop")[1]
    (71, 11, 229, 169)
    """
    tiles = []
    for shares in CROPS[crops]:
        left, top, right, bottom = (
            round(share * whole) for share, whole in zip(shares, (width, height) * 2, strict=True)
        )
        if aspect == "crop":
            inner = middle(right - left, bottom - top, side)
            left, top, right, bottom = (
                one + start for one, start in zip(inner, (left, top) * 2, strict=True)
            )
        tiles.append((left, top, right, bottom))
    return tuple(tiles)


def fault(path: Path) -> str | None:
    """The reason why `decode` would refuse a file; None if it would not.

    The file is decoded, JPEG at an eighth of its size, which is faster and detects the same errors.
    """
    try:
        with _opened(path, MAX_PIXELS) as opened:
            opened.draft("RGB", (1, 1))
            _upright(opened)
    except InputError as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def pixels_of(content: bytes) -> int:
    """Number of pixels that an image file claims; 0 for what `open_image` refuses to open."""
    try:
        with _opened(content, MAX_PIXELS) as opened:
            return opened.width * opened.height
    except InputError:
        return 0


@contextmanager
def _opened(file: Path | bytes, max_pixels: int) -> Iterator[Image.Image]:
    """An image file within the limits; an error inside the block becomes an `InputError`."""
    path = NO_FILE if isinstance(file, bytes) else file
    try:
        with Image.open(_source(file), formats=_pillow_names()) as opened:
            if opened.width * opened.height > max_pixels:
                raise InputError(
                    f"{path}: {opened.width} x {opened.height} pixels are more than the "
                    f"{max_pixels:,} allowed"
                )
            if max(opened.size) > MAX_SIDE:
                raise InputError(
                    f"{path}: {opened.width} x {opened.height} pixels; no side may have more than "
                    f"{MAX_SIDE:,}"
                )
            yield opened
    except (InputError, MemoryError):
        raise
    except Image.DecompressionBombError:
        raise InputError(
            f"{path}: cannot be read as an image (it has more than the {max_pixels:,} pixels "
            "allowed)"
        ) from None
    except Exception as error:  # broken files make decoders fail in many ways
        raise InputError(f"{path}: cannot be read as an image ({_reason(path, error)})") from None


def _source(file: Path | bytes) -> Path | BytesIO:
    """What Pillow reads: the file, or the bytes of an image that were given or are in a shard."""
    if isinstance(file, bytes):
        if not file:
            raise ValueError("the file is empty")
        return BytesIO(file)
    try:
        status = file.stat()
    except (NotADirectoryError, FileNotFoundError):
        if shard_of(file) is None:
            raise
        return BytesIO(read_member(file))
    if not S_ISREG(status.st_mode):  # reading from a pipe would block
        raise ValueError("it is not a file")
    if not status.st_size:
        raise ValueError("the file is empty")
    return file


@cache
def _pillow_names() -> tuple[str, ...]:
    """The kinds as Pillow calls them; makes HEIC known to it."""
    if "HEIC" not in IMAGE_KINDS:
        return IMAGE_KINDS
    import pillow_heif

    pillow_heif.register_heif_opener(thumbnails=False)
    return tuple("HEIF" if kind == "HEIC" else kind for kind in IMAGE_KINDS)


def image_files(path: Path, also: Iterable[str] = ()) -> tuple[Path, ...]:
    """The image files at or below a path, sorted; `also` has suffixes that count, too."""
    suffixes = {*IMAGE_SUFFIXES, *also}
    if path.is_dir():
        images = (file for file in path.rglob("*") if file.suffix.lower() in suffixes)
        return tuple(sorted(file for file in images if file.is_file()))
    return (path,) if path.is_file() and path.suffix.lower() in suffixes else ()


def not_readable(names: Iterable[str]) -> str | None:
    """How many images cannot be read here because of their kind, and what reads them; or None.

    >>> not_readable(["a.jpg", "b.txt"]) is None
    True
    """
    kinds = [SOMETIMES.get(name[name.rfind(".") :].lower(), "") for name in names]
    counts = {kind: kinds.count(kind) for kind in NEEDED if kind not in IMAGE_KINDS}
    parts = [
        f"{count} {kind} image{'' if count == 1 else 's'} cannot be read here ({NEEDED[kind]})"
        for kind, count in counts.items()
        if count
    ]
    return ", ".join(parts) or None


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        kind = SOMETIMES.get(path.suffix.lower())
        if kind is not None and kind not in IMAGE_KINDS:
            return f"it is {kind}, which needs {NEEDED[kind]}"
        return "it is of no known kind"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _upright(opened: Image.Image) -> Image.Image:
    """Applies the EXIF orientation; EXIF data that cannot be read is ignored."""
    opened.load()
    try:
        ImageOps.exif_transpose(opened, in_place=True)  # a copy would take a fifth of the time
    except MemoryError:
        raise
    except Exception:
        pass
    return opened


def middle(width: int, height: int, size: int) -> tuple[int, int, int, int]:
    """The central square of "crop": left, top, right, bottom.

    >>> middle(512, 256, 224)
    (144, 16, 368, 240)
    """
    side = max(1, round(min(width, height) * size / round(size * CROPPED)))
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def _eight_bits(image: Image.Image, sixteen_bits: bool) -> Image.Image:
    """Grey of more than 8 bits per pixel as bytes; plain conversion would clip it to white.

    16-bit values are scaled by their full range. 32-bit integers count as 16-bit if one of them
    exceeds 255, else as bytes; so do floats, unless none exceeds 1: then 1 is white. NaN becomes
    black.
    """
    if image.mode[0] not in "IF":
        return image
    rows = max(1, STRIP // image.width)
    tops = range(0, image.height, rows)

    def strip(top: int) -> npt.NDArray[np.float64]:
        part = image.crop((0, top, image.width, min(top + rows, image.height)))
        return np.nan_to_num(np.asarray(part, dtype=np.float64))

    highest = 65_535.0 if sixteen_bits else max(float(strip(top).max()) for top in tops)
    result = Image.new("L", image.size)
    for top in tops:
        values = strip(top)
        if highest > 255:
            values /= 257
        elif image.mode == "F" and highest <= 1:
            values *= 255
        result.paste(Image.fromarray(values.clip(0, 255).round().astype(np.uint8)), (0, top))
    return result


def decode_all(
    paths: Sequence[Path],
    size: int,
    tick: Callable[[], None] | None = None,
    aspect: Aspect = "stretch",
    out: Tensor | None = None,
) -> Tensor:
    """Reads many images into one tensor of bytes `[N, 3, size, size]`, on a few threads."""
    import torch

    if out is None:
        out = torch.empty(len(paths), 3, size, size, dtype=torch.uint8)
    with ThreadPoolExecutor(max_workers=4) as pool:
        for row, image in enumerate(pool.map(lambda path: decode(path, size, aspect), paths)):
            out[row] = image
            if tick is not None:
                tick()
    return out


def cached_images(
    paths: Sequence[Path],
    size: int,
    folder: Path,
    tick: Callable[[], None] | None = None,
    aspect: Aspect = "stretch",
) -> Tensor:
    """Images as bytes `[N, 3, size, size]`, mapped from a file that is written if it is missing."""
    import torch

    states = [file_state(path) for path in paths]
    if None in states:
        missing = paths[states.index(None)]
        raise InputError(f"{missing}: cannot be read as an image (No such file or directory)")
    names = [str(path.resolve()) for path in paths]
    key = content_key((VERSION, size, aspect), *zip(names, states, strict=True))
    file = folder / f"images-{size}-{key}.npy"
    if not file.exists():
        _check_room(folder, 3 * size * size * len(paths))
        with replacing(file) as temporary:
            shape = (len(paths), 3, size, size)
            mapped = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
            reserve(temporary)
            decode_all(paths, size, tick, aspect, out=torch.from_numpy(mapped))
            mapped.flush()
    # Copy-on-write: the tensor may be written to, the file is not.
    return torch.from_numpy(np.load(file, mmap_mode="c", allow_pickle=False))


def _check_room(folder: Path, needed: int) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise InputError(f"cache_dir {folder}: cannot be used ({error.strerror})") from None
    if needed > free:
        raise InputError(
            f"cache_dir {folder}: {needed / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB "
            "are free; choose another folder or leave cache_dir out"
        )
