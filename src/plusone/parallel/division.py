"""Which rows of a batch, or of a data set, each rank computes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plusone.parallel.processes import all_gather, all_gather_values, row_counts, world
from plusone.types import Outputs


def even_owners(n: int) -> Tensor:
    """The rank of each of `n` rows that are divided evenly, each rank's in one piece, int64 `[n]`.

    >>> even_owners(3)
    tensor([0, 0, 0])
    """
    counts = torch.tensor(row_counts(n))
    return torch.repeat_interleave(torch.arange(len(counts)), counts)


class Share(NamedTuple):
    """Which rows of every batch a rank works on: the same share of each, in one piece.

    Args:
        rank: The rank.
        size: How many ranks there are.
    """

    rank: int = 0
    size: int = 1

    def rows(self, items: int) -> Tensor:
        """Its rows of a batch, int64."""
        return torch.arange(items).tensor_split(self.size)[self.rank]


@dataclass(frozen=True, eq=False)
class Division:
    """How rows are divided among the ranks.

    Args:
        owners: The rank that computes each row, int64 `[n]`.
    """

    owners: Tensor

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each rank."""
        counts: list[int] = torch.bincount(self.owners, minlength=world()[1]).tolist()
        return counts

    @cached_property
    def own(self) -> Tensor:
        """The rows of this rank, int64; there may be none."""
        return torch.nonzero(self.owners == world()[0])[:, 0]

    @cached_property
    def places(self) -> Tensor | None:
        """The position of each row in the rows of all ranks; None if it is the same."""
        if bool((self.owners.diff() >= 0).all()):
            return None
        return torch.argsort(torch.argsort(self.owners, stable=True))

    def whole(self, own: Outputs) -> Outputs:
        """The outputs of all rows, from those of this rank's rows; with gradients."""
        parts = (own.logits, own.features, own.embeddings, own.maps)
        return Outputs(*(None if part is None else self._whole(part) for part in parts))  # type: ignore[arg-type]

    def gather(self, own: Tensor | None) -> Tensor:
        """The results of all rows `[n, ...]`, from those of this rank's; None if it has none."""
        if 0 in self.counts:  # it cannot know their shape
            kind = None if own is None else [str(own.dtype)[6:], *own.shape[1:]]
            kinds: list[Any] = [each for each in all_gather_values(kind) if each is not None]
            dtype, *shape = kinds[0]
            own = torch.zeros(0, *shape, dtype=getattr(torch, dtype)) if own is None else own
        assert own is not None
        return self._whole(own)

    def _whole(self, part: Tensor) -> Tensor:
        rows = all_gather(part[: len(self.own)], self.counts)  # without a repeated row
        return rows if self.places is None else rows[self.places.to(rows.device)]
