"""Content keys: short names that change when the content they stand for changes.

Run folders, journals and caches use them to tell whether data and settings are still the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Any

BLOCK = 1 << 24  # bytes of an array hashed at once


def content_key(*parts: object, length: int = 16) -> str:
    """A key of the given content, the same on every machine.

    Args:
        parts: Text and bytes are hashed as they are; arrays (also tensors and lazy arrays) by
            their values, without shape and type; anything else by its `repr`. There is no
            separator between parts: values that must not run together go into one tuple.
        length: Hexadecimal digits, at most 64.

    >>> import numpy as np
    >>> content_key("a", b"b", np.array([1, 2], dtype=np.int8))
    '806b492be705cc40'
    >>> content_key((1, "a")) == content_key("(1, 'a')") != content_key((1, "b"))
    True
    """
    state = hashlib.sha256()
    for part in parts:
        for piece in _pieces(part):
            state.update(piece)
    return state.hexdigest()[:length]


def file_key(path: Path, length: int = 16) -> str:
    """The key of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:length]


def file_sample(path: Path, pieces: int, size: int) -> bytes:
    """The size of a file and some evenly spaced pieces of it: all of a small file.

    They stand for the content if reading all of it would take too long. A change of the same
    length between the pieces is not noticed.
    """
    with path.open("rb") as file:
        end = file.seek(0, 2)
        parts = [str(end).encode()]
        for number in range(pieces):
            file.seek(max(0, end - size) * number // max(1, pieces - 1))
            parts.append(file.read(size))
    return b" ".join(parts)


def file_state(path: Path) -> tuple[int, int] | None:
    """Size and modification time of a file or folder; None if it is missing.

    They stand for the content if reading all of it would take too long. A path that leads into a
    file (`photos.tar/1.jpg`) has the state of that file.
    """
    for place in (path, *path.parents):
        try:
            status = place.stat()
        except OSError:
            continue
        if place is not path and not S_ISREG(status.st_mode):
            break
        return status.st_size, status.st_mtime_ns
    return None


def _pieces(part: Any) -> Iterator[bytes | memoryview]:
    """A part as bytes, arrays block by block."""
    if isinstance(part, str):
        yield part.encode("utf-8", "surrogateescape")
    elif isinstance(part, bytes | memoryview):
        yield part
    elif hasattr(part, "ndim") and hasattr(part, "nbytes"):
        array = part if part.ndim else part[None]
        step = max(1, BLOCK * len(array) // max(1, array.nbytes))
        for start in range(0, len(array), step):
            yield _bytes(array[start : start + step])
    else:
        yield repr(part).encode("utf-8", "surrogateescape")


def _bytes(block: Any) -> memoryview:
    import numpy as np  # imported here: commands that hash no arrays start without it

    if not isinstance(block, np.ndarray):  # a tensor, viewed as bytes: numpy has no bfloat16
        import torch

        block = block.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return np.ascontiguousarray(block).reshape(-1).view(np.uint8).data
