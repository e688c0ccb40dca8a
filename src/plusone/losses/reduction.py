"""How a table of losses `[B, L]` becomes the number that is minimised."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

Reduction = Literal["mean", "item", "sum", "none"]


def reduce(loss: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Reduces an unreduced loss over its last two dimensions.

    "mean" is the convention of Cole et al. 2021 (the 1/L inside Eq. 5-9, then a mean over the
    batch), "item" that of GR, Eq. 4 (sum over classes, mean over items).

    Args:
        loss: Losses `[..., B, L]`; leading dimensions are independent runs.
        reduction: "mean" over `B x L`; "item" sums over L and averages over B; "sum" adds
            everything; "none" returns the table.

    Returns:
        `[...]`, a scalar for one run; `[..., B, L]` for "none".

    Raises:
        ValueError: If `reduction` is another word.

    >>> import torch
    >>> reduce(torch.ones(2, 3), "item").item()
    3.0
    """
    if reduction == "mean":
        return loss.mean((-2, -1))
    if reduction == "item":
        return loss.sum((-2, -1)) / loss.shape[-2]
    if reduction == "sum":
        return loss.sum((-2, -1))
    if reduction == "none":
        return loss
    raise ValueError(f"reduction must be one of {get_args(Reduction)}, got {reduction!r}")
