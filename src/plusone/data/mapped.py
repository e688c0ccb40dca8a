"""Arrays of npz and npy files, mapped into memory instead of read.

An array that was stored without compression, as `np.savez` does, lies in the file as it would lie
in memory. The system then reads only the pages that are used, and may drop them again.
"""

from __future__ import annotations

import math
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a zip member: its mark, lengths of name and extra
MARK = b"PK\x03\x04"
ENCRYPTED = 1


def mapped_member(path: Path, name: str, least: int) -> npt.NDArray[Any] | None:
    """One array of an npz file, read-only; None if it is small, compressed, damaged or not there.

    Args:
        path: The file.
        name: Name of the array.
        least: Bytes from which on it is worth it.

    Raises:
        OSError: The file cannot be opened.
    """
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
        except Exception:  # whoever reads all of the file says what is wrong with it
            return None


def mapped_file(path: Path) -> npt.NDArray[Any]:
    """The array of an npy file, read-only.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is no npy file, is cut short, or holds pickled objects.
    """
    with path.open("rb") as content:
        try:
            return _mapped(path, content, path.stat().st_size)
        except OSError:
            raise
        except Exception as error:  # headers can be damaged in many ways
            raise ValueError(str(error).strip().splitlines()[0] or type(error).__name__) from None


def _mapped(path: Path, content: IO[bytes], end: int) -> npt.NDArray[Any]:
    """The array whose npy header begins here and whose numbers end at `end`."""
    version = npy.read_magic(content)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(content)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(content)
    else:
        raise ValueError(f"the npy version {version} is not known")
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    start, needed = content.tell(), math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or start + needed != end or end > path.stat().st_size:
        raise ValueError(f"its header claims {needed:,} bytes, {end - start:,} are there")
    if not needed:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")
