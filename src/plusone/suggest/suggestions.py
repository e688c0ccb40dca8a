"""`Suggestions`: labels that items may have and nobody gave, each with a probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.table import LabelTable


@dataclass(frozen=True)
class Suggestions:
    """Suggested labels, one entry each, item by item, the most probable of an item first.

    Args:
        table: The items and what was seen of their labels; every suggestion is unobserved in it.
        row: Item of each suggestion, int64 `[n]`, ascending.
        label: Its class, int32 `[n]`.
        probability: Calibrated probability that the item has the label, float32 `[n]`.
        score: What the model said, out of sample, before calibration, float32 `[n]`.
        about: How they were made; plain values, as kept in `about.json`.
    """

    table: LabelTable
    row: npt.NDArray[np.int64]
    label: npt.NDArray[np.int32]
    probability: npt.NDArray[np.float32]
    score: npt.NDArray[np.float32]
    about: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.row)
