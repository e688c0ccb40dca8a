"""`LazyArray`: rows of arrays that are read on access, usually memory-mapped files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# Features of this size in bytes or more are not copied into memory. Where torchrun started several
# processes, none are: those of one machine then share what is mapped from the disk.
LARGE = 1 << 29 if os.environ.get("WORLD_SIZE", "1") in ("", "1") else 0


class LazyArray:
    """Rows of one or several concatenated arrays; only the requested rows are read.

    It supports `shape`, `dtype`, `len()` and indexing by row, which copies the rows. `np.asarray`
    copies all of it into memory.

    Args:
        pieces: Arrays `[n, ...]` that differ only in their length.
        rows: Indices of the rows, in order, int64 `[N]`; None for all.

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
        """Size of all rows in memory, in bytes."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def view(self, rows: npt.NDArray[np.int64]) -> LazyArray:
        """Some rows, in the given order; nothing is read."""
        return LazyArray(self.pieces, self.rows[rows])

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """A copy of the rows at an index, a slice, several indices or a mask."""
        rows = self.rows[key]
        values = self._taken(np.atleast_1d(rows))
        return values.reshape(np.shape(rows) + self.shape[1:])

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
            raise ValueError("a lazy array cannot be converted without a copy")
        return self[:].astype(dtype or self.dtype, copy=False)


def rows_of(x: npt.NDArray[Any] | LazyArray, rows: npt.NDArray[np.int64]) -> LazyArray:
    """Some rows of an array as a lazy array; nothing is read.

    >>> rows_of(np.array([[1.0], [2.0]]), np.array([1]))[:].tolist()
    [[2.0]]
    """
    return x.view(rows) if isinstance(x, LazyArray) else LazyArray([x], rows)


def taken(
    x: npt.NDArray[Any] | LazyArray, rows: npt.NDArray[np.int64]
) -> npt.NDArray[Any] | LazyArray:
    """Some rows: a copy, or a lazy array if the array is large.

    >>> taken(np.array([[1.0], [2.0]]), np.array([1])).tolist()
    [[2.0]]
    """
    return rows_of(x, rows) if isinstance(x, LazyArray) or x.nbytes >= LARGE else x[rows]


def joined(parts: Sequence[npt.NDArray[Any] | LazyArray]) -> npt.NDArray[Any] | LazyArray:
    """Concatenates arrays: a copy, or a lazy array if they are large.

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
