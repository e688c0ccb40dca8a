"""k and class priors from features and single positives: a simple model, then its calibration.

The model is a softmax regression, cross-fitted so that every item is scored by a model that was not
trained on it. `sklearn.linear_model.LogisticRegression` is not used: it leaves out classes that are
absent from the training folds, and those need a score too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from plusone.data.matrix import LabelMatrix
from plusone.priors.estimate import (
    LabelsPerItem,
    Priors,
    from_single_positives,
    labels_per_item,
    refuse_few,
)
from plusone.priors.lbfgs import minimise
from plusone.priors.picks import pick

ITEMS = 20_000  # largest number of items that are fitted on
FOLDS = 3
DIRECTIONS = 512  # more features than this are reduced to their principal components
DECAYS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)  # in this order, until the fit gets worse
STEPS = 40


def from_features(
    x: Tensor,
    observed: LabelMatrix,
    *,
    seed: int = 0,
    on_fit: Callable[[], None] | None = None,
) -> Priors:
    """Estimates k and class priors, assuming uniform picking among an item's labels.

    Args:
        x: Features of the items, `[N, D]`, or tokens `[N, T, D]`, which are averaged.
        observed: Seen labels, `[N, L]`; items with a seen positive are used, at most 20,000.
        seed: Seed of the folds, and of the sample of items if there are more.
        on_fit: Called after each linear model.
    """
    scores, seen = _scored(x, observed, seed, on_fit)
    return from_single_positives(scores, seen)


def k_from_features(x: Tensor, observed: LabelMatrix, *, seed: int = 0) -> LabelsPerItem:
    """The k of `from_features`, without class priors."""
    return labels_per_item(*_scored(x, observed, seed, None))


def usable_rows(observed: LabelMatrix, seed: int = 0) -> npt.NDArray[np.int64]:
    """Rows with a seen positive, ascending, at most `ITEMS` of them."""
    rows = np.flatnonzero(observed.per_item(1) > 0)
    refuse_few(len(rows))
    if len(rows) > ITEMS:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:ITEMS])
    return rows


def _scored(
    x: Tensor, observed: LabelMatrix, seed: int, on_fit: Callable[[], None] | None
) -> tuple[npt.NDArray[np.float64], LabelMatrix]:
    """Out-of-sample scores of the usable items, and their seen labels."""
    if x.ndim == 3:
        x = x.mean(dim=1)
    rows = usable_rows(observed, seed)
    seen = observed.take(rows)
    label = pick(seen.dense(), np.random.default_rng(seed)).label
    x = x[torch.from_numpy(rows)]
    return cross_fitted_picks(x, label, observed.n_classes, seed=seed, on_fit=on_fit), seen


def cross_fitted_picks(
    x: Tensor,
    label: Tensor,
    n_classes: int,
    *,
    seed: int = 0,
    on_fit: Callable[[], None] | None = None,
) -> npt.NDArray[np.float64]:
    """Out-of-sample probabilities that each class is the seen one, `[N, L]`; rows sum to 1.

    The weight decay is chosen by the cross-entropy of the held-out items.

    Args:
        x: Features, float32 `[N, D]`.
        label: Seen label of each item, int64 `[N]`.
        n_classes: `L`.
        seed: Seed of the folds.
        on_fit: Called after each model.
    """
    x = standardised(x)
    fold = torch.from_numpy(np.random.default_rng(seed).permutation(len(x)) % FOLDS)
    weights = [torch.zeros(1 + x.shape[1], n_classes)] * FOLDS  # the first row is the bias
    best_cost, best = float("inf"), torch.zeros(len(x), n_classes)
    for decay in DECAYS:
        scores = torch.zeros(len(x), n_classes)
        for number in range(FOLDS):
            test = fold == number
            weights[number] = _fit(x[~test], label[~test], decay, weights[number])
            scores[test] = x[test] @ weights[number][1:] + weights[number][0]
            if on_fit is not None:
                on_fit()
        cost = float(cross_entropy(scores, label))
        if cost >= best_cost:
            break
        best_cost, best = cost, scores
    return np.asarray(torch.softmax(best.double(), dim=1))


def standardised(x: Tensor) -> Tensor:
    """Features with mean 0, at most `DIRECTIONS` of them, rows of length about 1."""
    x = x.float()
    spread = x.std(dim=0, unbiased=False)
    x = (x - x.mean(dim=0)) / torch.where(spread > 0, spread, 1.0)
    x = x / max(x.shape[1], 1) ** 0.5
    if x.shape[1] > DIRECTIONS:
        _, directions = torch.linalg.eigh(x.T @ x)
        x = x @ directions[:, -DIRECTIONS:]
    return x


def _fit(x: Tensor, label: Tensor, decay: float, start: Tensor) -> Tensor:
    """Weights `[1 + D, L]` of a softmax regression."""

    def cost(weights: Tensor) -> Tensor:
        loss = cross_entropy(x @ weights[1:] + weights[0], label)
        return loss + decay / 2 * (weights[1:] ** 2).sum()

    return minimise(cost, [start], steps=STEPS, memory=10, tolerance=1e-9)[0]
