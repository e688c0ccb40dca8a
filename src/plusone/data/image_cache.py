"""Decoded images on disk: written by the first run, mapped into memory by later ones.

A cache file is named after everything its content depends on: the files' paths, sizes and times of
change, and how they are resized. A changed image therefore gives a new file; old files stay until
someone deletes them, which is safe at any time.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from plusone.data.images import Aspect, decode_all
from plusone.errors import InputError
from plusone.files import replacing, reserve

VERSION = 1  # to be raised when decoding changes


def cached_images(
    paths: Sequence[Path],
    size: int,
    folder: Path,
    tick: Callable[[], None] | None = None,
    aspect: Aspect = "stretch",
) -> Tensor:
    """Images as bytes `[N, 3, size, size]`, mapped from a file that is written if it is missing.

    Args:
        paths: The image files.
        size: Side of the results.
        folder: Where cache files live.
        tick: Called once per image that had to be decoded.
        aspect: As for `plusone.data.images.decode`.
    """
    path = folder / f"images-{size}-{_key(paths, size, aspect)}.npy"
    if not path.exists():
        _write(path, paths, size, tick, aspect)
    # Copy-on-write: the tensor may be written to, the file is not.
    return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))


def _key(paths: Sequence[Path], size: int, aspect: Aspect) -> str:
    state = hashlib.sha256(f"{VERSION} {size} {aspect}".encode())
    for path in paths:
        try:
            about = path.stat()
        except OSError as error:
            raise InputError(f"{path}: cannot be read as an image ({error.strerror})") from None
        state.update(f"\0{path.resolve()}\0{about.st_size}\0{about.st_mtime_ns}".encode())
    return state.hexdigest()[:16]


def _write(
    path: Path,
    paths: Sequence[Path],
    size: int,
    tick: Callable[[], None] | None,
    aspect: Aspect,
) -> None:
    shape = (len(paths), 3, size, size)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
    except OSError as error:
        raise InputError(f"cache_dir {path.parent}: cannot be used ({error.strerror})") from None
    needed = 3 * size * size * len(paths)
    if needed > free:
        raise InputError(
            f"cache_dir {path.parent}: {needed / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB "
            "are free; choose another folder or leave cache_dir out"
        )
    with replacing(path) as temporary:
        mapped = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        reserve(temporary)
        decode_all(paths, size, tick, aspect, out=torch.from_numpy(mapped))
        mapped.flush()
