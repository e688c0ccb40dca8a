"""Minimising a smooth function of a few tensors by L-BFGS, with gradients from autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def minimise(
    cost: Callable[..., Tensor],
    start: Sequence[Tensor],
    *,
    steps: int,
    memory: int = 20,
    tolerance: float = 1e-10,
) -> tuple[Tensor, ...]:
    """Parameters that minimise a cost.

    Args:
        cost: Takes one tensor per parameter and returns a scalar.
        start: Initial values of the parameters.
        steps: Largest number of iterations.
        memory: Number of earlier gradients that approximate the curvature.
        tolerance: Change of the cost or the parameters below which iterations stop.

    >>> (x,) = minimise(lambda x: ((x - 3) ** 2).sum(), [torch.zeros(2)], steps=50)
    >>> x.numpy().round(4)
    array([3., 3.], dtype=float32)
    """
    parameters = [part.detach().clone().requires_grad_() for part in start]
    optimizer = torch.optim.LBFGS(
        parameters,
        max_iter=steps,
        history_size=memory,
        tolerance_change=tolerance,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = cost(*parameters)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return tuple(part.detach() for part in parameters)
