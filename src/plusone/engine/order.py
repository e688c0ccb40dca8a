"""The order in which an epoch visits the training items."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def visiting_order(
    n: int, weights: npt.NDArray[np.float64] | None, draw: torch.Generator
) -> Tensor:
    """Rows in the order of an epoch, int64 `[n]`.

    Without weights, or where all are equal, every item is visited once. With weights an item is
    visited in proportion to its own: `n w / Σ w` times on average, and in every epoch that number
    rounded down or up (systematic sampling, which has far less chance in it than drawing with
    replacement). So an item of weight 2 counts as much as two items of weight 1, whatever is done
    with the items later.

    Args:
        n: How many items, and how many visits.
        weights: One number per item, none negative, not all 0.
        draw: The source of chance.

    >>> weights = np.array([2.0, 1.0, 1.0, 0.0])
    >>> sorted(visiting_order(4, weights, torch.Generator().manual_seed(0)).tolist())
    [0, 0, 1, 2]
    """
    order = torch.randperm(n, generator=draw)
    if weights is None or (weights == weights[0]).all():
        return order
    # The items lie one after the other, in random order, on a line of length n; an item's piece
    # is as long as its share. Marks at distance 1 hit each piece as often as it is long.
    ends = np.cumsum(weights[order.numpy()])
    ends *= n / ends[-1]
    ends[-1] = n
    marks = np.arange(n) + torch.rand(1, generator=draw, dtype=torch.float64).item()
    visits = order[torch.from_numpy(np.searchsorted(ends, marks, side="right"))]
    return visits[torch.randperm(n, generator=draw)]
