"""Dropout whose chance is that of the whole batch, where several processes share it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plusone.models.rows import Rows


class WholeDropout(nn.Module):
    """Draws for the whole batch, as `nn.Dropout` would in one process, and uses its own rows.

    Args:
        layer: The layer whose place it takes.
        rows: Which rows of the batch this process has. An input may have several entries in a row,
            such as windows of an image, one item after the other.
    """

    def __init__(self, layer: nn.Dropout, rows: Rows) -> None:
        super().__init__()
        self.p, self.rows = layer.p, rows
        self.train(layer.training)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        entries = len(x) // len(self.rows.own)
        shape = (self.rows.total * entries, *x.shape[1:])
        noise = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=_order(x))
        noise.bernoulli_(1 - self.p)
        mine = noise.view(self.rows.total, entries, *x.shape[1:])[self.rows.own].flatten(0, 1)
        kept: Tensor = x * (mine.div_(1 - self.p) if self.p < 1 else mine)
        return kept

    def extra_repr(self) -> str:
        """Shown by `print(model)`."""
        return f"p={self.p}"


def _order(x: Tensor) -> torch.memory_format:
    """How the numbers lie in memory, which is the order in which chance is drawn for them."""
    last = x.ndim == 4 and not x.is_contiguous()
    if last and x.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    return torch.contiguous_format
