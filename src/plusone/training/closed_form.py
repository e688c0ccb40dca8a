"""Solving for a head in closed form, with predictions of each item by a model without it."""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.methods.base import Method
from plusone.models.kernel import principal_axes
from plusone.models.ridge import Ridge, Solution
from plusone.seeds import generator

FOLDS = 5
MANY = 20_000  # items; with more, there are two folds


def fold_of(n_items: int) -> Tensor:
    """The fold of each item, int64 `[n]`."""
    folds = min(FOLDS if n_items <= MANY else 2, n_items)
    return torch.randperm(n_items, generator=generator("folds of a closed form")) % folds


def predict_by_folds(
    method: Method, vectors: Tensor, observed: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Predictions `[n, L]` of each fold by a solution for all other items.

    Args:
        method: The method, with a closed form.
        vectors: `[n, r]`.
        observed: Labels `[n, L]`.
        weights: How much each item counts, `[n]`.
    """
    fold = fold_of(len(vectors))
    predictions = torch.empty_like(observed)
    for number in range(int(fold.max()) + 1):
        rest, own = fold != number, fold == number
        counts = None if weights is None else weights[rest] / weights[rest].mean()
        centre, axes = principal_axes(vectors[rest], counts)
        solution = method.solve(Ridge((vectors[rest] - centre) @ axes, counts), observed[rest])
        weight = axes @ solution.weight.T
        predictions[own] = (vectors[own] - centre) @ weight + solution.bias
    return predictions


def solve(
    method: Method,
    vectors: Tensor,
    observed: Tensor,
    weights: Tensor | None = None,
    *,
    leave_one_out: bool,
) -> Solution:
    """The solution for all items; its `left_out` is free of an item's own labels.

    Args:
        method: The method, with a closed form.
        vectors: `[n, r]`, with centred, uncorrelated columns.
        observed: Labels `[n, L]`.
        weights: How much each item counts, `[n]`.
        leave_one_out: Whether the method's own leave-one-out predictions are free of them; else
            folds are predicted.
    """
    solution = method.solve(Ridge(vectors, weights), observed)
    if leave_one_out or len(vectors) < 2:
        return solution
    left_out = predict_by_folds(method, vectors, observed, weights)
    return Solution(solution.weight, solution.bias, left_out, solution.targets)
