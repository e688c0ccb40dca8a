"""Features or vectors of items that are read in blocks, in one process or in several.

Whoever makes a pass over the items asks for `blocks`, adds something up, and ends with one `sum`:
with several processes each has the blocks of its own items, and the sum is that of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

BLOCK = 4096  # items at once
HELD = 1 << 30  # bytes of vectors that a process keeps instead of computing them in each pass


Sums = tuple[Tensor, ...]


def _itself(part: Tensor) -> Tensor:
    return part


def _made(make: Callable[[], Sums]) -> Sums:
    return make()


@dataclass(frozen=True)
class Ranks:
    """The processes that share the items of a closed form.

    Args:
        rank: The number of this one.
        size: How many there are.
        sum: The sum of tensors of one shape, one of each process.
        gather: The rows of all processes, `[n, ...]`, by rank.
        first: The tensor of the first process.
        kept: Gives what a pass adds up, from a function that makes the pass, or as it was kept.
    """

    rank: int = 0
    size: int = 1
    sum: Callable[[Tensor], Tensor] = _itself
    gather: Callable[[Tensor], Tensor] = _itself
    first: Callable[[Tensor], Tensor] = _itself
    kept: Callable[[Callable[[], Sums]], Sums] = _made

    def passed(self, add_up: Callable[[], Sums]) -> Sums:
        """What a pass over the items of all processes adds up.

        Args:
            add_up: The pass over the items of this process.
        """
        return self.kept(lambda: tuple(self.sum(part) for part in add_up()))

    def own(self, n_items: int) -> tuple[int, int]:
        """First and last (not included) of the items that are this process's own."""
        return n_items * self.rank // self.size, n_items * (self.rank + 1) // self.size


ALONE = Ranks()


class Passes:
    """Keeps what passes add up, so that a stopped fit does not make them again.

    Args:
        after: Called after each pass.
    """

    def __init__(self, after: Callable[[], None]) -> None:
        self.after, self.sums, self._place = after, list[Sums](), 0

    def __call__(self, make: Callable[[], Sums]) -> Sums:
        """What the next pass adds up: what is kept of it, or else what the function makes."""
        if self._place == len(self.sums):
            self.sums.append(make())
            self._place += 1
            self.after()
        else:
            self._place += 1
        return self.sums[self._place - 1]

    def forget(self) -> None:
        """Keeps nothing of the passes so far."""
        self.sums, self._place = [], 0

    def to_tensors(self) -> dict[str, Tensor]:
        """All of it by name, for a checkpoint."""
        return {
            f"pass_{number:03d}_{place}": tensor
            for number, sums in enumerate(self.sums)
            for place, tensor in enumerate(sums)
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes over what `to_tensors` gave, among others."""
        own = sorted(name for name in tensors if name.startswith("pass_"))
        grouped = groupby(own, key=lambda name: name.split("_")[1])
        self.sums = [tuple(tensors[name] for name in names) for _, names in grouped]
        self._place = 0


class Rows:
    """One vector for each item.

    Args:
        read: Gives the vectors `[b, width]` of rows, int64 `[b]`.
        n_items: How many there are.
        width: Length of a vector.
        ranks: The processes that share the items; each can read all of them.
    """

    def __init__(
        self, read: Callable[[Tensor], Tensor], n_items: int, width: int, ranks: Ranks = ALONE
    ) -> None:
        self.at, self.n_items, self.width, self.ranks = read, n_items, width, ranks

    @classmethod
    def of(cls, vectors: Tensor | Rows) -> Rows:
        """Vectors in memory `[n, width]`, or what are rows already."""
        if isinstance(vectors, Rows):
            return vectors
        return cls(lambda rows: vectors[rows.to(vectors.device)], *vectors.shape)

    @classmethod
    def joined(cls, parts: Sequence[Rows], rows: Tensor | None = None) -> Rows:
        """The rows of several parts, one below the other, or some of them, int64 `[n]`."""
        starts = torch.tensor([0, *(len(part) for part in parts)]).cumsum(0)

        def read(wanted: Tensor) -> Tensor:
            wanted = wanted if rows is None else rows[wanted]
            if len(parts) == 1:
                return parts[0].at(wanted)
            owner = torch.searchsorted(starts, wanted, right=True) - 1
            place = torch.cat([(owner == number).nonzero()[:, 0] for number in range(len(parts))])
            each = [
                part.at(wanted[owner == number] - starts[number])
                for number, part in enumerate(parts)
            ]
            values = torch.cat(each)
            return torch.empty_like(values).index_copy_(0, place.to(values.device), values)

        count = int(starts[-1]) if rows is None else len(rows)
        return cls(read, count, parts[0].width, parts[0].ranks)

    def __len__(self) -> int:
        return self.n_items

    def blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows int64 `[b]` and their vectors `[b, width]`, of this process's own items."""
        for rows in torch.split(torch.arange(*self.ranks.own(self.n_items)), BLOCK):
            if len(rows):
                yield rows, self.at(rows)

    def mapped(self, through: Callable[[Tensor], Tensor], width: int) -> Rows:
        """The vectors after a map; they are kept in memory where they take at most `HELD` bytes."""

        def read(rows: Tensor) -> Tensor:
            first = through(self.at(rows[:BLOCK]))
            if len(rows) <= BLOCK:
                return first
            table = first.new_empty(len(rows), width)
            table[:BLOCK] = first
            for start in range(BLOCK, len(rows), BLOCK):
                table[start : start + BLOCK] = through(self.at(rows[start : start + BLOCK]))
            return table

        if 4 * self.n_items * width > HELD:
            return Rows(read, self.n_items, width, self.ranks)
        held = Rows.of(read(torch.arange(self.n_items)))
        return Rows(held.at, self.n_items, width, self.ranks)
