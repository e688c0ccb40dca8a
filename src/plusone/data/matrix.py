"""`LabelMatrix`: the labels of many items, in three states, stored sparsely.

What the three states mean, everywhere in this package:

| value | name | meaning |
| --- | --- | --- |
| `1` | seen positive | an annotator said that the class applies |
| `0` | unobserved | no annotator gave an answer: it may apply or not |
| `-1` | seen negative | an annotator said that the class does not apply |

The truth of an item has no zeros: every class is `1` or `-1`.

Only entries that differ from `default` are stored: one entry per row for single positives
(`default=0`), and the positives for a full truth (`default=-1`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array, vstack

from plusone.io.keys import content_key


@dataclass(frozen=True, eq=False)
class LabelMatrix:
    """Labels `[N, L]`: compressed sparse rows, and the state of entries that are not stored.

    Args:
        entries: The stored states, int8 `[N, L]`, columns ascending within a row. A stored 0 is a
            state like the others.
        default: State of every entry that is not stored.
    """

    entries: csr_array
    default: int = 0

    @classmethod
    def from_entries(
        cls,
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        values: npt.ArrayLike,
        shape: tuple[int, int],
        *,
        default: int = 0,
    ) -> LabelMatrix:
        """Builds the matrix from (row, class, state) triples in any order, without repeats.

        >>> LabelMatrix.from_entries([1, 0], [2, 0], [1, 1], (2, 3)).dense().tolist()
        [[1, 0, 0], [0, 0, 1]]
        """
        row, column = (np.asarray(part, dtype=np.int32) for part in (rows, columns))
        value = np.broadcast_to(np.asarray(values, dtype=np.int8), row.shape)
        return cls(coo_array((value, (row, column)), shape=shape).tocsr(), default)

    @classmethod
    def from_dense(cls, array: npt.ArrayLike, *, default: int = 0) -> LabelMatrix:
        """Builds the matrix from `[N, L]` states; with `default=-1`, 0 is read as -1 (a truth).

        >>> LabelMatrix.from_dense([[1, 0], [0, 1]], default=-1).dense().tolist()
        [[1, -1], [-1, 1]]
        """
        if np.ma.is_masked(array):
            raise ValueError("labels have masked values; 0 stands for an unobserved label")
        dense = np.asarray(array)
        if dense.ndim != 2:
            raise ValueError(f"labels must have two dimensions [N, L], not shape {dense.shape}")
        allowed = (1, 0, -1)
        if dense.size and not np.isin(dense, allowed).all():
            bad = dense[~np.isin(dense, allowed)].flat[0]
            raise ValueError(f"labels must be 1, 0 or -1, not {bad}")
        rows, columns = np.nonzero(dense > 0) if default == -1 else np.nonzero(dense)
        return cls.from_entries(rows, columns, dense[rows, columns], dense.shape, default=default)

    @classmethod
    def from_lists(
        cls,
        positives: Iterable[Sequence[int]],
        n_classes: int,
        *,
        negatives: Iterable[Sequence[int]] | None = None,
        default: int = 0,
    ) -> LabelMatrix:
        """Builds the matrix from the class numbers of each item's positives (and negatives)."""
        rows: list[int] = []
        columns: list[int] = []
        values: list[int] = []
        count = 0
        for state, lists in ((1, positives), (-1, negatives if negatives is not None else ())):
            for row, classes in enumerate(lists):
                count = max(count, row + 1)
                rows.extend([row] * len(classes))
                columns.extend(classes)
                values.extend([state] * len(classes))
        return cls.from_entries(rows, columns, values, (count, n_classes), default=default)

    @classmethod
    def concatenate(cls, parts: Sequence[LabelMatrix]) -> LabelMatrix:
        """Stacks matrices over the same classes, one below the other."""
        return cls(vstack([part.entries for part in parts], format="csr"), parts[0].default)

    def __len__(self) -> int:
        return int(self.entries.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """`(N, L)`."""
        return len(self), self.n_classes

    @property
    def n_classes(self) -> int:
        """`L`."""
        return int(self.entries.shape[1])

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.values)

    @property
    def indptr(self) -> npt.NDArray[np.signedinteger[Any]]:
        """Row `i` owns the entries `indptr[i]:indptr[i + 1]`, `[N + 1]`."""
        return self.entries.indptr  # type: ignore[no-any-return]

    @property
    def indices(self) -> npt.NDArray[np.signedinteger[Any]]:
        """Class of each stored entry, `[nnz]`."""
        return self.entries.indices  # type: ignore[no-any-return]

    @property
    def values(self) -> npt.NDArray[np.int8]:
        """State of each stored entry, `[nnz]`."""
        return self.entries.data  # type: ignore[no-any-return]

    def row_of_entry(self) -> npt.NDArray[np.int64]:
        """The row of each stored entry, int64 `[nnz]`."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def take(self, rows: npt.ArrayLike) -> LabelMatrix:
        """The given rows, in the given order."""
        return LabelMatrix(self.entries[np.asarray(rows, dtype=np.int64)], self.default)

    def columns(self, classes: npt.ArrayLike) -> LabelMatrix:
        """The given classes, in the given order.

        >>> LabelMatrix.from_dense([[1, 0, -1]]).columns([2, 0]).dense().tolist()
        [[-1, 1]]
        """
        chosen = self.entries[:, np.asarray(classes, dtype=np.int64)]
        chosen.sort_indices()
        return LabelMatrix(chosen, self.default)

    def dense(self, rows: npt.ArrayLike | None = None) -> npt.NDArray[np.int8]:
        """The states of the given rows (or of all), int8 `[n, L]`."""
        part = self if rows is None else self.take(rows)
        out = np.full(part.shape, self.default, dtype=np.int8)
        out[part.row_of_entry(), part.indices] = part.values
        return out

    def positives(self, row: int) -> npt.NDArray[np.signedinteger[Any]]:
        """The classes that are positive for one item, ascending."""
        own = slice(self.indptr[row], self.indptr[row + 1])
        classes: npt.NDArray[np.signedinteger[Any]] = self.indices[own][self.values[own] == 1]
        return classes

    def per_item(self, state: int) -> npt.NDArray[np.int64]:
        """Number of classes in the given state for each item, int64 `[N]`."""
        hits = np.bincount(self.row_of_entry()[self.values == state], minlength=len(self))
        if state == self.default:
            hits = hits + self.n_classes - np.diff(self.indptr)
        return hits

    def per_class(self, state: int) -> npt.NDArray[np.int64]:
        """Number of items in the given state for each class, int64 `[L]`."""
        hits = np.bincount(self.indices[self.values == state], minlength=self.n_classes)
        if state == self.default:
            hits = hits + len(self) - np.bincount(self.indices, minlength=self.n_classes)
        return hits

    def at(self, rows: npt.ArrayLike, classes: npt.ArrayLike) -> npt.NDArray[np.int8]:
        """The states of single labels, int8 `[m]`.

        >>> LabelMatrix.from_dense([[1, 0], [0, -1]]).at([0, 1, 1], [0, 0, 1]).tolist()
        [1, 0, -1]
        """
        wanted = np.asarray(rows, dtype=np.int64) * self.n_classes + np.asarray(classes)
        stored = self.row_of_entry() * self.n_classes + self.indices  # ascending
        states = np.full(wanted.shape, self.default, dtype=np.int8)
        if len(stored):
            place = np.minimum(np.searchsorted(stored, wanted), len(stored) - 1)
            there = stored[place] == wanted
            states[there] = self.values[place[there]]
        return states

    def without(self, rows: npt.ArrayLike, classes: npt.ArrayLike) -> LabelMatrix:
        """The same labels with some of them unobserved.

        >>> LabelMatrix.from_dense([[1, 1], [0, -1]]).without([0, 1], [1, 1]).dense().tolist()
        [[1, 0], [0, 0]]
        """
        row, column = np.asarray(rows, dtype=np.int64), np.asarray(classes, dtype=np.int64)
        own = self.row_of_entry()
        cleared = np.unique(row * self.n_classes + column)
        kept = np.isin(own * self.n_classes + self.indices, cleared, invert=True)
        own, columns, values = own[kept], self.indices[kept], self.values[kept]
        if self.default:  # 0 is no longer the state of what is not stored
            more_rows, more_columns = np.divmod(cleared, self.n_classes)
            own = np.concatenate([own, more_rows])
            columns = np.concatenate([columns, more_columns])
            values = np.concatenate([values, np.zeros(len(cleared), dtype=np.int8)])
        return LabelMatrix.from_entries(own, columns, values, self.shape, default=self.default)

    def only_positives(self, *, default: int = 0) -> LabelMatrix:
        """The same positives, everything else in the state `default`."""
        keep = self.values == 1
        return LabelMatrix.from_entries(
            self.row_of_entry()[keep], self.indices[keep], 1, self.shape, default=default
        )

    def unless_negative(self, truth: LabelMatrix) -> LabelMatrix:
        """The same states, but unobserved where a negative is positive in truth.

        >>> seen = LabelMatrix.from_dense([[1, -1, -1]])
        >>> seen.unless_negative(LabelMatrix.from_dense([[1, 1, 0]], default=-1)).dense().tolist()
        [[1, 0, -1]]
        """
        own = self.row_of_entry() * self.n_classes + self.indices
        positive = truth.only_positives()
        true = positive.row_of_entry() * self.n_classes + positive.indices
        if self.default == -1:
            more = np.setdiff1d(true, own)
            places = np.concatenate([own, more])
            values = np.concatenate([self.values, np.zeros(len(more), dtype=np.int8)])
            values[: len(own)][(self.values == -1) & np.isin(own, true)] = 0
        else:
            kept = (self.values != -1) | np.isin(own, true, invert=True)
            places, values = own[kept], self.values[kept]
        rows, columns = np.divmod(places, self.n_classes)
        return LabelMatrix.from_entries(rows, columns, values, self.shape, default=self.default)

    def with_default(self, default: int) -> LabelMatrix:
        """The same states, stored relative to another `default`.

        >>> LabelMatrix.from_dense([[1, -1]]).with_default(-1).nnz
        1
        """
        if default == self.default:
            return self
        step = max(1, 2**24 // max(1, self.n_classes))
        parts = []
        for start in range(0, max(1, len(self)), step):
            dense = self.dense(np.arange(start, min(start + step, len(self))))
            rows, columns = np.nonzero(dense != default)
            parts.append(
                LabelMatrix.from_entries(
                    rows, columns, dense[rows, columns], dense.shape, default=default
                )
            )
        return LabelMatrix.concatenate(parts)

    def digest(self) -> str:
        """A hash of shape and content that does not depend on the machine."""
        arrays = (self.indptr, "<i8"), (self.indices, "<i4"), (self.values, "<i1")
        parts = (np.asarray(array, dtype=kind) for array, kind in arrays)
        return content_key(f"{self.shape} {self.default}", *parts)
