"""`LazyArray`: rows of arrays that stay where they lie, usually in files mapped into memory."""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

LARGE = 1 << 29  # bytes of features from which on they are not copied into memory


class LazyArray:
    """Rows of one or several arrays, one below the other; only what is asked for is read.

    It has what whoever uses features needs of an array: `shape`, `dtype`, `len()`, and rows by
    number, which are copied out. `np.asarray` copies all of it into memory.

    Args:
        pieces: Arrays `[n, ...]` that differ in length only.
        rows: Which rows of them these are, in order, int64 `[N]`; None for all.

    >>> two = LazyArray([np.array([[1.0], [2.0]]), np.array([[3.0]])])
    >>> two.view(np.array([2, 0]))[:].tolist(), two[1:].tolist()
    ([[3.0], [1.0]], [[2.0], [3.0]])
    """

    def __init__(
        self, pieces: Sequence[npt.NDArray[Any]], rows: npt.NDArray[np.int64] | None = None
    ) -> None:
        self.pieces = tuple(pieces)
        self._starts = np.cumsum([0, *map(len, pieces)])
        self.rows = np.arange(self._starts[-1]) if rows is None else rows
        self.dtype: np.dtype[Any] = np.result_type(*(piece.dtype for piece in pieces))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """`(N, ...)`."""
        return len(self), *self.pieces[0].shape[1:]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.pieces[0].ndim

    @property
    def nbytes(self) -> int:
        """Bytes that all rows would take in memory."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def view(self, rows: npt.NDArray[np.int64]) -> LazyArray:
        """Some rows, in the given order; nothing is read."""
        return LazyArray(self.pieces, self.rows[rows])

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """Rows by a number, a slice, numbers or a mask, as an array of their own."""
        rows = self.rows[key]
        found = self._taken(np.atleast_1d(rows))
        return found.reshape(np.shape(rows) + self.shape[1:])

    def _taken(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        if len(self.pieces) == 1:
            return np.asarray(np.take(self.pieces[0], rows, axis=0))
        out = np.empty((len(rows), *self.shape[1:]), dtype=self.dtype)
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(owner).tolist():
            own = owner == number
            out[own] = np.take(self.pieces[number], rows[own] - self._starts[number], axis=0)
        return out

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """All rows in memory."""
        if copy is False:
            raise ValueError("the rows lie elsewhere: they cannot be had without a copy")
        return self[:].astype(dtype or self.dtype, copy=False)


def rows_of(x: npt.NDArray[Any] | LazyArray, rows: npt.NDArray[np.int64]) -> LazyArray:
    """Some rows of an array or of a lazy one; nothing is read.

    >>> rows_of(np.array([[1.0], [2.0]]), np.array([1]))[:].tolist()
    [[2.0]]
    """
    return x.view(rows) if isinstance(x, LazyArray) else LazyArray([x], rows)


def taken(
    x: npt.NDArray[Any] | LazyArray, rows: npt.NDArray[np.int64]
) -> npt.NDArray[Any] | LazyArray:
    """Some rows: copied, or left where they lie if the array is large.

    >>> taken(np.array([[1.0], [2.0]]), np.array([1])).tolist()
    [[2.0]]
    """
    return rows_of(x, rows) if isinstance(x, LazyArray) or x.nbytes >= LARGE else x[rows]


def joined(parts: Sequence[npt.NDArray[Any] | LazyArray]) -> npt.NDArray[Any] | LazyArray:
    """Arrays one below the other: copied into one, or left where they lie if they are large.

    >>> joined([np.array([[1.0]]), np.array([[2.0]])]).tolist()
    [[1.0], [2.0]]
    """
    if len(parts) == 1:
        return parts[0]
    if sum(part.nbytes for part in parts) < LARGE:
        return np.concatenate([np.asarray(part) for part in parts])
    pieces: list[npt.NDArray[Any]] = []
    rows: list[npt.NDArray[np.int64]] = []
    start = 0
    for part in parts:
        own = part if isinstance(part, LazyArray) else LazyArray([part])
        rows.append(start + own.rows)
        pieces.extend(own.pieces)
        start += sum(map(len, own.pieces))
    return LazyArray(pieces, np.concatenate(rows))


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
