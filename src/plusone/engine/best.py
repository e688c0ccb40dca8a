"""The best weights of a stage so far."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Best:
    """The best weights of a stage so far.

    Args:
        score: What they were chosen by, see `EpochRecord.val_score`.
        val_map: Their validation mAP.
        epoch: The epoch that gave them, from 1.
        weights: "raw" or "ema".
        model: The model's state.
        method: The method's state.
    """

    score: float
    val_map: float
    epoch: int
    weights: str
    model: dict[str, Tensor]
    method: dict[str, Tensor]
