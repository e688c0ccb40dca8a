"""Loading npz files: what they claim is checked before any memory is taken for it."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.bounded import UNPACKED_RATIO, unpacked_limit

MOST_ARRAYS = 10_000
SHOWN = 200
LAST_CHARACTER = 0x10FFFF

Arrays = dict[str, npt.NDArray[Any]]


def load_npz(path: Path, skip: Collection[str] = ()) -> Arrays:
    """All arrays of an npz file, none of them pickled.

    Args:
        path: The file.
        skip: Names of arrays that are checked but not loaded.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is no npz file, is damaged, holds pickled objects, or would become too large.
    """
    try:
        _check_members(path)
        with np.load(path, allow_pickle=False) as file:
            return {key: _sound_text(file[key]) for key in file.files if key not in skip}
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(_first(error)) from None
    except Exception as error:  # zip files and array headers can be damaged in many ways
        why = "it holds pickled objects" if "pickle" in str(error) else _first(error)
        raise ValueError(why) from None


def _check_members(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as raw:
        if raw.read(6) == b"\x93NUMPY":
            raise ValueError("it is a single array")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MOST_ARRAYS:
            raise ValueError(f"it has more than {MOST_ARRAYS:,} arrays")
        if len({member.filename for member in members}) < len(members):
            raise ValueError("two of its arrays have the same name")
        stored = sum(m.file_size for m in members if m.compress_type == zipfile.ZIP_STORED)
        packed = sum(m.file_size for m in members) - stored
        if stored > size:
            raise ValueError(f"its arrays claim {stored:,} bytes, the file has {size:,}")
        if packed > unpacked_limit(size):
            raise ValueError(
                f"its compressed arrays claim {packed:,} bytes, more than {UNPACKED_RATIO} times "
                f"the file; if you trust it, write it without compression"
            )
        for member in members:
            _check_claim(archive, member)


def _check_claim(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """The header of an array must claim the bytes that follow it, no more and no less."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise ValueError(f"{member.filename} is an array of another version")
        shape, _, dtype = read(file)
        claimed = dtype.itemsize
        for side in shape:
            if type(side) is not int or side < 0:
                raise ValueError(f"{member.filename} has the shape {str(shape)[:SHOWN]}")
            claimed *= side
        if dtype.hasobject:
            raise ValueError("it holds pickled objects")
        if claimed != member.file_size - file.tell():
            raise ValueError(
                f"{member.filename} claims {claimed:,} bytes and has "
                f"{member.file_size - file.tell():,}"
            )


def _sound_text(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, if no text in it has characters that do not exist, which Python cannot bear."""
    if array.dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder.replace("|", "=") + "u4")
        if codes.max() > LAST_CHARACTER:
            raise ValueError("it has text in it that is no text")
    return array


def _first(error: Exception) -> str:
    """The first line of what an error says, or its kind."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:SHOWN]
