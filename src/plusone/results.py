"""`EpochRecord`: what one epoch brought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch brought; one line of `records.jsonl`.

    Args:
        stage: Number of the stage, from 0.
        epoch: Number of the epoch within the stage, from 1.
        losses: Mean of each loss term over the steps.
        val_map: mAP on the validation items, against the labels of `selected_on`.
        selected_on: "truth" or "observed".
        best: Whether this is the best epoch of the stage so far.
        weights: "raw" or "ema", whichever scored better.
        seconds: Time taken, evaluation included.
        probe: What the model said about hidden labels, see `plusone.metrics.probe`; None where
            the recipe does not ask for it or the truth is not known.
        val_score: What the best epoch is chosen by, higher is better.
        selected_by: "map", or the name of a score of `plusone.metrics.seen_labels`.
    """

    stage: int
    epoch: int
    losses: dict[str, float]
    val_map: float
    selected_on: str
    best: bool
    weights: str
    seconds: float
    probe: dict[str, Any] | None
    val_score: float
    selected_by: str
