"""Adam for many equally shaped weights that move in step, with few calls.

The kernel is that of `LeanAdam`, so each weight moves as it would alone. What is saved is the
bookkeeping: all weights share one count of steps, and there is one call for each learning rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from plusone.engine.adam import ONE, Moved, move


class StackedAdam:
    """Moves stacked weights.

    Args:
        weights: Stacks of weights, `[n, ...]` each.
        grads: Their gradients, which are read at every step.
        rates: Learning rate of each of the n.
        weight_decay: As of `torch.optim.Adam`.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        grads: Sequence[Tensor],
        rates: Sequence[float],
        weight_decay: float,
    ) -> None:
        self.count = torch.zeros((), dtype=torch.float32)
        self.weight_decay = weight_decay
        moments = [[torch.zeros_like(weight) for weight in weights] for _ in range(2)]
        places = defaultdict(list)
        for place, rate in enumerate(rates):
            places[rate].append(place)
        self.groups: list[tuple[Moved, list[Tensor], float]] = []
        for rate, some in places.items():
            moved, slopes, means, squares = (
                [stack[place] for stack in stacks for place in some]
                for stacks in (weights, grads, *moments)
            )
            counts = [self.count] * len(moved)
            self.groups.append((Moved(moved, means, squares, counts), slopes, rate))

    def step(self) -> None:
        """Moves all weights once."""
        self.count.add_(ONE)
        for moved, slopes, rate in self.groups:
            move(moved, slopes, rate, weight_decay=self.weight_decay)
