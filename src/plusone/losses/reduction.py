"""How a table of losses `[B, L]` becomes the number that is minimised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from torch import Tensor

Reduction = Literal["mean", "item", "sum", "none"]


def reduce(loss: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Reduces an unreduced loss.

    "mean" is the convention of Cole et al. 2021 (the 1/L inside Eq. 5-9, then a mean over the
    batch), "item" that of GR, Eq. 4 (sum over classes, mean over items).

    Args:
        loss: Losses `[B, L]`.
        reduction: "mean" over `B x L`; "item" sums over L and averages over B; "sum" adds
            everything; "none" hands the table back.

    Returns:
        A scalar, or `[B, L]` for "none".

    Raises:
        ValueError: If `reduction` is another word.

    >>> import torch
    >>> reduce(torch.ones(2, 3), "item").item()
    3.0
    """
    if reduction == "mean":
        return loss.mean()
    if reduction == "item":
        return loss.sum() / loss.shape[0]
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"reduction must be one of {get_args(Reduction)}, got {reduction!r}")


def share(reduction: Reduction, shape: Sequence[int]) -> float:
    """How much one entry of a table `[B, L]` counts in its reduction.

    Args:
        reduction: "mean", "item" or "sum".
        shape: Of the table.

    Raises:
        ValueError: If `reduction` is another word.

    >>> share("item", (4, 10))
    0.25
    """
    parts = {"mean": math.prod(shape), "item": shape[0], "sum": 1}
    if reduction not in parts:
        raise ValueError(f"reduction must be one of {tuple(parts)}, got {reduction!r}")
    return 1 / max(parts[reduction], 1)
