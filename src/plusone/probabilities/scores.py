"""Out-of-sample scores of items, which are read in blocks: no table of all of them is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK = 1 << 20  # labels of a block

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


def _itself(part: Array) -> Array:
    return part


@dataclass(frozen=True)
class Division:
    """The processes that share the items of a pass.

    Args:
        rank: The number of this one.
        size: How many there are.
        gather: The rows of all processes, one below the other, `[n, ...]`.
    """

    rank: int = 0
    size: int = 1
    gather: Callable[[Array], Array] = _itself


@dataclass(frozen=True)
class Scores:
    """Scores in [0, 1] of items, each by a model that has not seen it.

    Args:
        at: Gives the scores of rows int64 `[b]`, float64 `[b, L]`.
        shape: `(N, L)`.
        division: The processes that share the items of a pass; each can read all of them.
    """

    at: Callable[[Ints], Floats]
    shape: tuple[int, int]
    division: Division = Division()

    @classmethod
    def of(cls, scores: npt.ArrayLike | Scores) -> Scores:
        """Scores in memory, `[N, L]`, or what are scores already."""
        if isinstance(scores, Scores):
            return scores
        values = np.asarray(scores, dtype=np.float64)
        return cls(lambda rows: values[rows], values.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def table(self) -> Floats:
        """All of them, `[N, L]`: for data that is small enough."""
        return self.at(np.arange(len(self)))

    def collect(
        self, of_block: Callable[[Ints], tuple[Array, ...]], rows: Ints | None = None
    ) -> list[Array]:
        """What a function gives for some items or all, in one pass over blocks of them.

        Each process calls it for blocks of its share of the items; all get the whole result.

        Args:
            of_block: Gives arrays that belong to rows int64 `[b]`, such as one number for each, or
                what was found in them.
            rows: The items, int64; all by default.
        """
        rows = np.arange(len(self)) if rows is None else rows
        share = np.array_split(rows, self.division.size)[self.division.rank]
        parts = [of_block(block) for block in blocks(share, self.shape[1])]
        columns = list(zip(*parts, strict=True)) if parts else []
        parts.clear()
        joined = []
        while columns:  # one after the other, so that nothing is held twice
            joined.append(self.division.gather(np.concatenate(columns.pop(0))))
        return joined


def blocks(rows: Ints, n_classes: int) -> Iterator[Ints]:
    """The rows in blocks of about `BLOCK` labels; one empty block if there are none."""
    step = max(1, BLOCK // max(1, n_classes))
    for start in range(0, max(1, len(rows)), step):
        yield rows[start : start + step]
