"""What settings are chosen by."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any


def choice_score(result: dict[str, Any]) -> float:
    """What a finished training is chosen by: its score on validation, higher is better.

    Results of earlier versions have no score of their own; they were chosen by mAP.
    """
    score = result.get("val_score")
    return float(result["val_map"] if score is None else score)


def mean_score(results: Sequence[dict[str, Any]]) -> float:
    """The mean of `choice_score`, over seeds for instance."""
    return fmean(map(choice_score, results))
