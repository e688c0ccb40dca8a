"""Work divided among processes, where there are several (torch.distributed).

Every process holds all items; each works on a share of them, and all get the whole result. With
one process nothing is divided.
"""

from __future__ import annotations

import torch
from torch import Tensor, distributed


def world() -> tuple[int, int]:
    """This process's number and how many there are."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def share(n: int) -> Tensor:
    """Rows of `n` that this process works on, one after the other: int64 `[n / world]`."""
    rank, size = world()
    return torch.arange(n).tensor_split(size)[rank]


def joined(part: Tensor, n: int) -> Tensor:
    """The results of all processes, in the order of the items.

    Args:
        part: This process's results `[len(share(n)), ...]`.
        n: How many items there are in all.

    Returns:
        `[n, ...]`, the same in every process.
    """
    _, size = world()
    if size == 1:
        return part
    lengths = [len(rows) for rows in torch.arange(n).tensor_split(size)]
    padded = part.new_zeros((max(lengths), *part.shape[1:]))  # all must send equally much
    padded[: len(part)] = part
    parts = [torch.empty_like(padded) for _ in range(size)]
    distributed.all_gather(parts, padded)
    return torch.cat([each[:length] for each, length in zip(parts, lengths, strict=True)])
