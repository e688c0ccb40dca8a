"""Random directions in weight space, scaled filter by filter.

Li et al. 2018, Visualizing the Loss Landscape of Neural Nets, NeurIPS, section 4: a direction has
one random part per weight, and each filter of it the norm of the filter it belongs to. So a step of
length 1 is as large as the weights themselves, whatever their scale, and surfaces of different
models can be compared. Biases and the weights of norms have no filters; they stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.linalg import vector_norm

Direction = Mapping[str, Tensor]


def filter_direction(
    weights: Mapping[str, Tensor], generator: torch.Generator
) -> dict[str, Tensor]:
    """A random direction with the norms of the weights' filters.

    Args:
        weights: Weights by name. A filter is a row of the first dimension: the weights of one class
            in a linear head, one output channel of a convolution.
        generator: Source of randomness.

    Returns:
        One tensor per weight with two or more dimensions.

    >>> one = filter_direction({"w": torch.tensor([[3.0, 4.0]])}, torch.Generator().manual_seed(0))
    >>> round(one["w"].norm().item(), 4)
    5.0
    """
    found = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            continue
        drawn = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        dims = tuple(range(1, weight.ndim))
        size = vector_norm(weight.detach(), dim=dims, keepdim=True)
        found[name] = drawn * (size / vector_norm(drawn, dim=dims, keepdim=True).clamp(min=1e-12))
    return found


@contextmanager
def moved(
    model: nn.Module, directions: Sequence[Direction], steps: Sequence[float]
) -> Iterator[None]:
    """The model with its weights moved along some directions; afterwards they are as before."""
    weights = dict(model.named_parameters())
    names = dict.fromkeys(name for direction in directions for name in direction)
    before = {name: weights[name].detach().clone() for name in names}
    try:
        with torch.no_grad():
            for direction, step in zip(directions, steps, strict=True):
                for name, part in direction.items():
                    weights[name].add_(part, alpha=step)
        yield
    finally:
        with torch.no_grad():
            for name, value in before.items():
                weights[name].copy_(value)
