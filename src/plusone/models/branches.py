"""Several backbones side by side, each with a head of its own, as one backbone and one head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from plusone.models.heads import Head, pooled
from plusone.types import Outputs


class Branches(nn.Module):
    """Backbones of the same images; gives their pooled features one after the other.

    Args:
        backbones: The backbones.
        dim: D, how many features each of them has.
    """

    def __init__(self, backbones: Sequence[nn.Module], dim: int) -> None:
        super().__init__()
        self.backbones = nn.ModuleList(backbones)
        self.dim = dim * len(backbones)

    def forward(self, images: Tensor) -> Tensor:
        """Features `[B, branches * D]`."""
        return torch.cat([pooled(backbone(images).float()) for backbone in self.backbones], dim=1)


class MeanHead(Head):
    """The mean of the logits of several heads, each on the features of its branch.

    Args:
        heads: A head for each branch.
    """

    deterministic = True

    def __init__(self, heads: Sequence[Head]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)
        self.width_inside = max(head.width_inside for head in heads)

    def forward(self, features: Tensor) -> Outputs:
        parts = features.chunk(len(self.heads), dim=1)
        logits = [head(part).logits for head, part in zip(self.heads, parts, strict=True)]
        return Outputs(torch.stack(logits).mean(0), features)
