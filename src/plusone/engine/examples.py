"""A few training items with what was seen, what is true and what the model says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plusone.engine.task import Part
from plusone.seeds import derive

COUNT = 12
TOP = 8


def pick_examples(
    part: Part, classes: tuple[str, ...], predict: Callable[[Tensor], Tensor]
) -> list[dict[str, Any]]:
    """Items for a report, the same ones for every method on the same data.

    Args:
        part: The training items; those with labels to find are preferred.
        classes: Class names.
        predict: Gives the probabilities `[n, L]` of some rows of the items.

    Returns:
        For each item `id`, `seen` and `truth` (class names; `truth` is None where it is not
        known), and `scores`, the highest ones by class name.
    """
    rows = np.arange(len(part))
    if part.truth is not None:
        hidden = part.truth.per_item(1) - part.observed.per_item(1)
        rows = np.flatnonzero(hidden > 0) if (hidden > 0).any() else rows
    draw = np.random.default_rng(derive(0, "examples"))
    chosen = np.sort(draw.choice(rows, min(COUNT, len(rows)), replace=False))
    seen = part.observed.take(chosen).dense()
    truth = None if part.truth is None else part.truth.take(chosen).dense()
    top = predict(torch.from_numpy(chosen)).topk(min(TOP, len(classes)))
    return [
        {
            "id": str(part.ids[row]),
            "seen": [classes[label] for label in np.flatnonzero(seen[place] == 1)],
            "truth": None
            if truth is None
            else [classes[label] for label in np.flatnonzero(truth[place] == 1)],
            "scores": {
                classes[label]: round(value, 4)
                for label, value in zip(
                    top.indices[place].tolist(), top.values[place].tolist(), strict=True
                )
            },
        }
        for place, row in enumerate(chosen)
    ]
