"""Softmax: treat the one seen label as the class of a multi-class problem.

No paper; the baseline everybody tries first. A class's score is its softmax probability: the raw
logit, compared between items, ranks far worse.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses import softmax_cross_entropy
from plusone.methods.itemwise import Itemwise
from plusone.types import Clock


class Softmax(Itemwise):
    """Cross-entropy of the seen label, mean over items."""

    reduction = "item"

    def probabilities(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits, dim=1)

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        return softmax_cross_entropy(logits, *known)
