"""Samples of very many items, so that a figure never needs more labels than fit into memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.inputs.forward import ROWS
from plusone.seeds import derive

VALIDATION_LABELS = 1 << 26  # evaluated after every epoch
CALIBRATED_LABELS = 1 << 24  # of items that probabilities and thresholds are calibrated on
RECOVERY_LABELS = 1 << 25  # training labels evaluated at the end of a run
TEST_LABELS = 1 << 28  # evaluated at the end of a run or by `plusone evaluate`
SMALLEST_SAMPLE = 1000  # items


def sample(n_items: int, n_classes: int, most: int) -> npt.NDArray[np.int64] | None:
    """A random sample of rows, ascending; None where all of them can be used.

    Args:
        n_items: How many items there are.
        n_classes: How many classes.
        most: The largest number of labels.

    >>> sample(5000, 10, 1 << 20) is None, sample(5000, 1000, 2_000_000).size
    (True, 2000)
    """
    size = max(most // max(n_classes, 1), SMALLEST_SAMPLE)
    if n_items <= size:
        return None
    draw = np.random.default_rng(derive(0, "sample", n_items))
    return np.sort(draw.choice(n_items, size, replace=False))


def blockwise(rows: Tensor, n_classes: int, predict: Callable[[Tensor], Tensor]) -> Tensor:
    """Predicts many rows in blocks, so that nothing large is held twice.

    Args:
        rows: The rows, int64 `[n]`.
        n_classes: `L`.
        predict: Gives the probabilities `[b, L]` of some rows.

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
