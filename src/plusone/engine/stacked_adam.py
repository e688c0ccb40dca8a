"""Adam for many equally shaped weights that move in step, with few calls.

The kernel is that of `LeanAdam`, so each weight moves as it would alone. What is saved is the
bookkeeping: all weights share one count of steps, and there is one call for each learning rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

BETAS, EPS = (0.9, 0.999), 1e-8  # torch's, as for trainings alone


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
        self.groups = {
            rate: [
                [stack[place] for stack in stacks for place in some]
                for stacks in (weights, grads, *moments)
            ]
            for rate, some in places.items()
        }

    def step(self) -> None:
        """Moves all weights once."""
        self.count += 1
        for rate, (weights, grads, means, squares) in self.groups.items():
            torch._fused_adam_(
                weights,
                grads,
                means,
                squares,
                [],
                [self.count] * len(weights),
                lr=rate,
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=self.weight_decay,
                eps=EPS,
                amsgrad=False,
                maximize=False,
            )
