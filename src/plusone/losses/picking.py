"""Seen labels are few: what they cost is computed apart and put in its places.

Of a table `[B, L]` with one seen label per row all but B entries are unobserved. A loss computes
the cost of an unobserved label for the whole table and that of a seen one for the few.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses.closed_form import Formula

PICKED = 32768  # labels from which it pays to pick the seen ones


def few_seen(y: Tensor) -> bool:
    """Whether a table is large and so few of its labels are seen that it pays to pick them.

    >>> few_seen(torch.zeros(400, 100)), few_seen(torch.ones(400, 100)), few_seen(torch.zeros(2, 2))
    (True, False, False)
    """
    large = y.numel() >= PICKED and y.device.type == "cpu"
    return large and 8 * y.abs().sum().item() <= y.numel()


def seen_places(y: Tensor) -> Tensor:
    """Where labels are not 0, as places in the flattened table, in order.

    >>> seen_places(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).tolist()
    [1, 2]
    """
    flat = y.flatten()
    even = len(flat) % 2 == 0 == flat.storage_offset() % 2
    if len(flat) < PICKED or flat.dtype != torch.float32 or not even:
        return flat.nonzero().squeeze(1)
    first = flat.view(torch.int64).nonzero() * 2  # two labels at a look: few are not 0
    both = torch.cat((first, first + 1), 1).flatten()
    return both[flat[both] != 0]


def with_seen(
    z: Tensor, y: Tensor, unobserved: tuple[Tensor, Tensor], seen: Formula
) -> tuple[Tensor, Tensor]:
    """Losses and slopes of unobserved labels, with those of the seen ones put in their places.

    >>> costs = torch.zeros(2), torch.zeros(2)
    >>> with_seen(torch.ones(2), torch.tensor([0.0, 1.0]), costs, lambda z, y: (z, y))
    (tensor([0., 1.]), tensor([0., 1.]))
    """
    at = seen_places(y)
    for table, found in zip(unobserved, seen(z.take(at), y.take(at)), strict=True):
        table.put_(at, found)
    return unobserved
