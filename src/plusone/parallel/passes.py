"""The passes of a closed form over items that are divided among the processes."""

from __future__ import annotations

from torch import Tensor

from plusone.closed_form.vectors import ALONE, Passes, Ranks
from plusone.parallel.processes import (
    all_gather,
    all_gather_values,
    all_sum,
    broadcast_tensors,
    world,
)


def ranks_of_passes(passes: Passes | None = None) -> Ranks:
    """The processes that share the items; a pass ends with one sum over them.

    Args:
        passes: Keeps what they add up.
    """
    rank, size = world()
    alone = ALONE if passes is None else Ranks(kept=passes)
    if size == 1:
        return alone

    def gather(part: Tensor) -> Tensor:
        return all_gather(part, all_gather_values(len(part)))

    def first(tensor: Tensor) -> Tensor:
        sent = broadcast_tensors({"first": tensor.cpu()})["first"]
        return sent.to(tensor.device)

    return Ranks(rank, size, all_sum, gather, first, alone.kept)
