"""Which rows of a batch a process has, where several share it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Rows:
    """The rows of the present step; whoever trains sets them before each.

    Args:
        stacked: Gives the tensors of all processes, equally large, as `[processes, ...]`.
        own: This process's rows among all, int64 `[m]`.
        total: How many rows there are in all.
        counted: False if the process has no rows, and a row that counts for nothing stands in.
    """

    stacked: Callable[[Tensor], Tensor]
    own: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    total: int = 0
    counted: bool = True
