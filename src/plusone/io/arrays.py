"""npy and npz files: written atomically, read within bounds, memory-mapped if they are large.

Pickled objects are never loaded. The bounds are those of `plusone.io.readers`.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from plusone.errors import first_line
from plusone.io.files import replacing
from plusone.io.readers import UNPACKED_RATIO, unpacked_limit

MOST_ARRAYS = 10_000
SHOWN = 200
MOST_EMPTY = 2**16  # rows or columns of an array that has no bytes
LAST_CHARACTER = 0x10FFFF
LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a zip member: signature, lengths of name and extra
MARK = b"PK\x03\x04"
ENCRYPTED = 1

Arrays = dict[str, npt.NDArray[Any]]


class _Plain:
    """A file wrapper that makes numpy write through Python.

    numpy writes to real files directly, and does not report a partial write on a full disk.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, content: bytes) -> int:
        return self._file.write(content)


@dataclass(frozen=True)
class Blocks:
    """An array whose rows come in blocks.

    Args:
        shape: Of the whole array.
        dtype: Its type.
        blocks: Its rows, in order.
    """

    shape: tuple[int, ...]
    dtype: npt.DTypeLike
    blocks: Iterable[npt.NDArray[Any]]

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Blocks:
        """An array in memory as one block."""
        return cls(array.shape, array.dtype, [array])


def write_array(path: Path, values: npt.NDArray[Any]) -> None:
    """Writes an npy file atomically."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(_Plain(file), values, allow_pickle=False)


def write_blocks(path: Path, array: Blocks) -> None:
    """Writes an npy file atomically whose rows come in blocks."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        _write_blocks(file, array)


def write_npz(path: Path, arrays: Mapping[str, Blocks]) -> None:
    """Writes an uncompressed npz file atomically; rows of its arrays come in blocks."""
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                _write_blocks(file, array)


def _write_blocks(file: IO[bytes], array: Blocks) -> None:
    dtype = np.dtype(array.dtype)
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": array.shape}
    npy.write_array_header_1_0(file, header)
    for block in array.blocks:
        file.write(np.ascontiguousarray(block, dtype=dtype).tobytes())


def load_npz(path: Path, skip: Collection[str] = ()) -> Arrays:
    """All arrays of an npz file; pickled objects are refused.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is not an npz file, is damaged, holds pickled objects, or is too large when
            decompressed.
    """
    try:
        _check_members(path)
        with np.load(path, allow_pickle=False) as file:
            return {key: _sound_text(file[key]) for key in file.files if key not in skip}
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(first_line(error)[:SHOWN]) from None
    except Exception as error:  # zip files and array headers can be damaged in many ways
        reason = "it holds pickled objects" if "pickle" in str(error) else first_line(error)[:SHOWN]
        raise ValueError(reason) from None


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
    """Checks that the header of an array claims exactly the bytes that follow it."""
    with archive.open(member) as file:
        shape, _, dtype = _header(file)
        claimed, available = math.prod(shape) * dtype.itemsize, member.file_size - file.tell()
        if claimed != available:
            raise ValueError(f"{member.filename} claims {claimed:,} bytes and has {available:,}")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and type of the array that starts at the current position."""
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(file)
    else:
        raise ValueError(f"the npy version {version} is not known")
    if any(type(side) is not int or side < 0 for side in shape):
        raise ValueError(f"an array has the shape {str(shape)[:SHOWN]}")
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    if not (dtype.itemsize and math.prod(shape)) and max(shape, default=1) > MOST_EMPTY:
        raise ValueError(f"an array without a byte claims the shape {str(shape)[:SHOWN]}")
    return shape, fortran, dtype


def _sound_text(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array; `ValueError` if text in it has invalid code points, which Python cannot handle."""
    if array.dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder.replace("|", "=") + "u4")
        if codes.max() > LAST_CHARACTER:
            raise ValueError("it has text with invalid characters")
    return array


def mapped_member(path: Path, name: str, least: int) -> npt.NDArray[Any] | None:
    """An array of an npz file, mapped read-only; None if missing, small, compressed or damaged."""
    with path.open("rb") as content:
        try:
            with zipfile.ZipFile(content) as file:
                info = file.getinfo(f"{name}.npy")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size < least:
                return None
            content.seek(info.header_offset)
            mark, *lengths = LOCAL_HEADER.unpack(content.read(LOCAL_HEADER.size))
            if mark != MARK or info.flag_bits & ENCRYPTED:
                return None
            content.seek(sum(lengths), 1)
            return _mapped(path, content, content.tell() + info.file_size)
        except Exception:  # reading the whole file reports what is wrong with it
            return None


def mapped_file(path: Path) -> npt.NDArray[Any]:
    """The memory-mapped array of an npy file, read-only.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is not an npy file, is truncated, or holds pickled objects.
    """
    with path.open("rb") as content:
        try:
            return _mapped(path, content, path.stat().st_size)
        except OSError:
            raise
        except Exception as error:  # headers can be damaged in many ways
            raise ValueError(first_line(error)) from None


def _mapped(path: Path, content: IO[bytes], end: int) -> npt.NDArray[Any]:
    """The array whose npy header starts at the current position and whose data ends at `end`."""
    shape, fortran, dtype = _header(content)
    start, needed = content.tell(), math.prod(shape) * dtype.itemsize
    if start + needed != end or end > path.stat().st_size:
        raise ValueError(f"its header claims {needed:,} bytes, {end - start:,} are there")
    if not needed:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")
