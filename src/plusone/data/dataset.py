"""`Dataset`: a label table, and the features of its items where a file brings them along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from plusone.data.table import LabelTable


@dataclass(frozen=True)
class Dataset:
    """What a reader hands back.

    Args:
        table: Items, classes and labels.
        features: What belongs to `table.ids[i]` in row `i`: float32 or float16 vectors `[N, D]`,
            or images in memory, uint8 `[N, C, H, W]`; None for image files.
        name: A short name for reports, from the file or folder.
    """

    table: LabelTable
    features: npt.NDArray[Any] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.features is not None and len(self.features) != len(self.table):
            raise ValueError(f"features have {len(self.features)} rows for {len(self.table)} items")
