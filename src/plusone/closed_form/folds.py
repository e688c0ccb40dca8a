"""Solving for a head in closed form, with predictions of each item by a model without it.

Where items have groups, "without it" means without its group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from plusone.closed_form.kernel import principal_axes
from plusone.closed_form.recover import with_test
from plusone.closed_form.ridge import Ridge, Solution
from plusone.data.groups import random_folds
from plusone.probabilities.answered_k import k_by_answers
from plusone.probabilities.answers import are_answers
from plusone.seeds import generator

Solve = Callable[..., Solution]  # from a regression and labels [n, L]; `k`, where answers tell it
FOLDS = 5
SLOPE = 4.0  # from predictions to log-odds of scores
MANY = 20_000  # items; with more, there are two folds


def fold_of(n_items: int, groups: Tensor | None = None) -> Tensor:
    """The fold of each item, int64 `[n]`; items of a group are in one fold.

    Args:
        n_items: How many there are.
        groups: Number of each item's group, from 0, int64 `[n]`.
    """
    most = n_items if groups is None else int(groups.max()) + 1
    fold = random_folds(
        n_items,
        min(FOLDS if n_items <= MANY else 2, most),
        lambda count: torch.randperm(count, generator=generator("folds of a closed form")),
        None if groups is None else groups.numpy(),
    )
    return torch.from_numpy(fold)


def predict_by_folds(
    solver: Solve,
    vectors: Tensor,
    observed: Tensor,
    weights: Tensor | None = None,
    groups: Tensor | None = None,
) -> Tensor:
    """Predictions `[n, L]` of each fold by a solution for all other items.

    Args:
        solver: `Method.solve`.
        vectors: `[n, r]`.
        observed: Labels `[n, L]`.
        weights: How much each item counts, `[n]`.
        groups: Number of each item's group, int64 `[n]`.
    """
    fold = fold_of(len(vectors), groups)
    predictions = torch.empty_like(observed)
    for number in range(int(fold.max()) + 1):
        rest, own = fold != number, fold == number
        counts = None if weights is None else weights[rest] / weights[rest].mean()
        centre, axes = principal_axes(vectors[rest], counts)
        ridge = Ridge(
            (vectors[rest] - centre) @ axes, counts, None if groups is None else groups[rest]
        )
        solution = solver(ridge, observed[rest])
        weight = axes @ solution.weight.T
        predictions[own] = (vectors[own] - centre) @ weight + solution.bias
        del solution  # its tables, before those of the next fold
    return predictions


def solve(
    solver: Solve,
    vectors: Tensor,
    observed: Tensor,
    weights: Tensor | None = None,
    groups: Tensor | None = None,
    *,
    leave_one_out: bool,
) -> Solution:
    """The solution for all items; its `left_out` is free of an item's own labels.

    Args:
        solver: `Method.solve`.
        vectors: `[n, r]`, with centred, uncorrelated columns.
        observed: Labels `[n, L]`; 2 for positives that are answers (`mark_answers`).
        weights: How much each item counts, `[n]`.
        groups: Number of each item's group from 0, int64 `[n]`; its labels are not used either.
        leave_one_out: Whether the method's own leave-one-out predictions are free of them; else
            folds are predicted.
    """
    marked = observed.cpu().numpy().astype(np.int8)
    if (asked := are_answers(marked)).any():
        picks = observed.masked_fill(torch.from_numpy(asked).to(observed.device), 0.0)
        blind = solve(solver, vectors, picks, weights, groups, leave_one_out=leave_one_out)
        if blind.estimate is not None:
            scores = torch.sigmoid(SLOPE * (blind.left_out.double() - 0.5)).cpu().numpy()
            numbers = None if groups is None else groups.numpy()
            estimate = k_by_answers(scores, marked, blind.estimate, numbers)
            solver = partial(solver, estimate=estimate)
    ridge = Ridge(vectors, weights, groups)
    solution = with_test(ridge, observed, solver(ridge, observed))
    if leave_one_out or len(vectors) < 2 or (groups is not None and not groups.any()):
        return solution
    solution = replace(solution, left_out=observed[:0])  # its table, for those of the folds
    left_out = predict_by_folds(solver, vectors, observed, weights, groups)
    return replace(solution, left_out=left_out)
