"""How many labels are looked at where looking at all of them would take too much memory.

Figures need the scores of all items at once, 4 bytes a label and several times that while they are
computed. Up to these many labels (items x classes) all items are looked at; beyond, a sample of
them, always the same one for the same data. Training itself always uses all items.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.engine.predict import ROWS
from plusone.seeds import derive

JUDGED = 1 << 26  # validation labels, looked at after every epoch
RECOVERED = 1 << 25  # training labels, looked at when a training ends
TESTED = 1 << 28  # test labels, looked at when a training ends or a run is evaluated
LEAST = 1000  # items a sample has at least


def sample(n_items: int, n_classes: int, most: int) -> npt.NDArray[np.int64] | None:
    """Rows to look at, ascending; None where all of them are.

    Args:
        n_items: How many items there are.
        n_classes: How many classes.
        most: How many labels may be looked at.

    >>> sample(5000, 10, 1 << 20) is None, sample(5000, 1000, 2_000_000).size
    (True, 2000)
    """
    size = max(most // max(n_classes, 1), LEAST)
    if n_items <= size:
        return None
    draw = np.random.default_rng(derive(0, "sample", n_items))
    return np.sort(draw.choice(n_items, size, replace=False))


def blockwise(rows: Tensor, n_classes: int, predict: Callable[[Tensor], Tensor]) -> Tensor:
    """Probabilities of many rows, some at a time: nothing large is held twice.

    Args:
        rows: Which, int64 `[n]`.
        n_classes: `L`.
        predict: Gives the probabilities `[b, L]` of some of them.

    Returns:
        `[n, L]`.
    """
    step = ROWS["features"]
    if len(rows) <= step:
        return predict(rows)
    out = torch.empty(len(rows), n_classes)
    for start in range(0, len(rows), step):
        out[start : start + step] = predict(rows[start : start + step])
    return out
