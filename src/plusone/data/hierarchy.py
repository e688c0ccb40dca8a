"""`Hierarchy`: which class lies below which, and what that says about labels.

A class has one parent or none. A positive class makes its parents positive, a negative one makes
its children negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array

from plusone.data.matrix import LabelMatrix

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Hierarchy:
    """The parent of each class.

    Args:
        parent: Number of the parent of each class, `L` of them; None where there is none. There is
            no cycle (`plusone.data.classes_file` checks that).

    >>> dog = Hierarchy((1, 2, None))  # dog, mammal, animal
    >>> dog.level.tolist()
    [3, 2, 1]
    >>> dog.closed(LabelMatrix.from_dense([[1, 0, 0], [0, -1, 0]])).dense().tolist()
    [[1, 1, 1], [-1, -1, 0]]
    >>> dog.most_specific(LabelMatrix.from_dense([[1, 1, 1]])).dense().tolist()
    [[1, 0, 0]]
    """

    parent: tuple[int | None, ...]

    def lineage(self, label: int) -> list[int]:
        """The classes above a class, its parent first."""
        above, at = list[int](), self.parent[label]
        while at is not None:
            above.append(at)
            at = self.parent[at]
        return above

    @cached_property
    def ancestors(self) -> csr_array:
        """1 where the class of a column lies above that of a row, int32 `[L, L]`."""
        above = [self.lineage(label) for label in range(len(self.parent))]
        rows = np.repeat(np.arange(len(above)), [len(each) for each in above])
        columns = np.array([label for each in above for label in each], dtype=np.int64)
        ones = np.ones(len(rows), dtype=np.int32)
        return coo_array((ones, (rows, columns)), shape=(len(above), len(above))).tocsr()

    @cached_property
    def level(self) -> Ints:
        """How deep each class lies, from 1, `[L]`."""
        return np.asarray(1 + self.ancestors.sum(axis=1), dtype=np.int64)

    @property
    def depth(self) -> int:
        """Number of levels."""
        return int(self.level.max(initial=0))

    def of(self, columns: Sequence[int]) -> Hierarchy:
        """That of some classes, in the given order; of a class left out, its parent stands in."""
        place = {label: at for at, label in enumerate(columns)}
        kept = ([place[up] for up in self.lineage(label) if up in place] for label in columns)
        return Hierarchy(tuple(above[0] if above else None for above in kept))

    def closed(self, labels: LabelMatrix) -> LabelMatrix:
        """Labels with what follows from them: parents of positives, children of negatives.

        What is not stored in a matrix of the default -1 is negative unless a child is positive.
        """
        positive = _where(labels, labels.values == 1)
        positive = positive + positive @ self.ancestors
        if labels.default == 0:
            other = _where(labels, labels.values == -1)
            other = other + other @ self.ancestors.T
        else:  # labels that are not known, unless a class above them is negative
            other = _where(labels, labels.values == 0)
            possible = ((positive + other) > 0).astype(np.int32)
            room = (possible @ self.ancestors.T + possible).tocoo()
            free = room.data == self.level[room.col]
            free_at = coo_array(
                (np.ones(int(free.sum()), np.int32), (room.row[free], room.col[free])), room.shape
            )
            other = other.multiply(free_at.tocsr())
        positive, other = positive.tocoo(), (other - other.multiply(positive > 0)).tocoo()
        rows, columns, kept = other.row, other.col, other.data > 0
        state = -1 - labels.default  # -1, or 0 where the default is -1
        return LabelMatrix.from_entries(
            np.concatenate([positive.row, rows[kept]]),
            np.concatenate([positive.col, columns[kept]]),
            np.repeat([1, state], [len(positive.row), int(kept.sum())]),
            labels.shape,
            default=labels.default,
        )

    def most_specific(self, labels: LabelMatrix) -> LabelMatrix:
        """The labels without positives that follow from a positive below them."""
        positive = labels.values >= 1
        implied = (_where(labels, positive) @ self.ancestors).tocoo()
        rows, columns = labels.row_of_entry(), labels.indices
        above = implied.row.astype(np.int64) * labels.n_classes + implied.col
        kept = ~positive | np.isin(rows * labels.n_classes + columns, above, invert=True)
        return LabelMatrix.from_entries(
            rows[kept], columns[kept], labels.values[kept], labels.shape, default=labels.default
        )

    def spread(self, rows: Ints, labels: Ints, yes: Bools) -> tuple[Ints, Ints, Bools]:
        """Answers, each with those that follow from it: of parents if yes, of children if no.

        Args:
            rows: Item of each answer, `[n]`.
            labels: Its class, `[n]`.
            yes: Whether the item has the label, `[n]`.
        """
        below = self.ancestors.T.tocsr()
        more = [
            [label, *(self.lineage(label) if right else below[[label]].indices.tolist())]
            for label, right in zip(labels.tolist(), yes.tolist(), strict=True)
        ]
        counts = [len(each) for each in more]
        own = np.array([label for each in more for label in each], dtype=np.int64)
        return np.repeat(rows, counts), own, np.repeat(yes, counts)

    def contradiction(self, labels: LabelMatrix) -> tuple[int, int, int] | None:
        """The first item with a seen negative above a positive: item, positive, negative."""
        negative = _where(labels, labels.values == -1)
        both = (_where(labels, labels.values == 1) @ self.ancestors).multiply(negative).tocoo()
        if not both.nnz:
            return None
        row, above = int(both.row[0]), int(both.col[0])
        below = next(c for c in labels.positives(row).tolist() if above in self.lineage(c))
        return row, below, above


def _where(labels: LabelMatrix, chosen: Bools) -> csr_array:
    """1 at some of the stored entries, int32 `[N, L]`."""
    rows, columns = labels.row_of_entry()[chosen], labels.indices[chosen]
    ones = np.ones(len(rows), dtype=np.int32)
    return coo_array((ones, (rows, columns)), shape=labels.shape).tocsr()
