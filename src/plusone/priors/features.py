"""k and class priors from features and single positives: a cheap model, then its calibration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.priors.estimate import FEWEST, ITEMS, Priors, from_single_positives, picked_of

FOLDS = 3
DIRECTIONS = 512  # features beyond this many are reduced to their main directions
DECAYS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)  # strong to weak, until it gets worse
STEPS = 40


def cross_fitted_picks(
    x: Tensor,
    label: Tensor,
    n_classes: int,
    *,
    seed: int = 0,
    on_fit: Callable[[], None] | None = None,
) -> npt.NDArray[np.float64]:
    """Out-of-sample chances that each class is the seen one, `[N, L]`; a row sums to 1.

    Args:
        x: Features, float32 `[N, D]`.
        label: Seen label of each item, int64 `[N]`.
        n_classes: `L`.
        seed: Deals the folds.
        on_fit: Called after each model.
    """
    x = standardised(x)
    fold = torch.from_numpy(np.random.default_rng(seed).permutation(len(x)) % FOLDS)
    weights: list[Tensor | None] = [None] * FOLDS
    best, found = float("inf"), torch.zeros(len(x), n_classes)
    for decay in DECAYS:
        scores = torch.zeros(len(x), n_classes)
        for number in range(FOLDS):
            own = fold == number
            fitted = _fit(x[~own], label[~own], n_classes, decay, weights[number])
            weights[number] = fitted
            scores[own] = x[own] @ fitted[1:] + fitted[0]
            if on_fit is not None:
                on_fit()
        cost = float(cross_entropy(scores, label))
        if cost >= best:
            break
        best, found = cost, scores
    chances: npt.NDArray[np.float64] = torch.softmax(found.double(), dim=1).numpy()
    return chances


def standardised(x: Tensor) -> Tensor:
    """Features with mean 0 and spread 1, at most `DIRECTIONS` of them, rows of length about 1."""
    x = x.float()
    spread = x.std(dim=0, unbiased=False)
    x = (x - x.mean(dim=0)) / torch.where(spread > 0, spread, 1.0)
    x = x / max(x.shape[1], 1) ** 0.5
    if x.shape[1] > DIRECTIONS:
        _, directions = torch.linalg.eigh(x.T @ x)
        x = x @ directions[:, -DIRECTIONS:]
    return x


def _fit(x: Tensor, label: Tensor, n_classes: int, decay: float, start: Tensor | None) -> Tensor:
    """Weights `[1 + D, L]` of a softmax regression; the first row is the bias."""
    weights = torch.zeros(1 + x.shape[1], n_classes) if start is None else start.clone()
    weights.requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights], max_iter=STEPS, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        cost = cross_entropy(x @ weights[1:] + weights[0], label)
        cost = cost + decay / 2 * (weights[1:] ** 2).sum()
        cost.backward()  # type: ignore[no-untyped-call]
        return cost

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach()


def from_features(
    x: Tensor,
    observed: LabelMatrix,
    *,
    seed: int = 0,
    interval: bool = True,
    on_fit: Callable[[], None] | None = None,
) -> Priors:
    """Estimates k and class priors, if annotators pick among an item's labels uniformly.

    Args:
        x: Features of the items, `[N, D]`, or tokens `[N, T, D]`, which are averaged.
        observed: What was seen, `[N, L]`; items with exactly one seen positive are used, at most
            20,000 of them.
        seed: Deals the folds, and draws the items if there are more.
        interval: Whether to find the interval of k.
        on_fit: Called after each linear model.
    """
    if x.ndim == 3:
        x = x.mean(dim=1)
    rows = usable_rows(observed, seed)
    seen = observed.take(rows)
    label = picked_of(seen).label
    scores = cross_fitted_picks(
        x[torch.from_numpy(rows)], label, observed.n_classes, seed=seed, on_fit=on_fit
    )
    return from_single_positives(scores, seen, interval=interval)


def usable_rows(observed: LabelMatrix, seed: int = 0) -> np.ndarray:
    """Rows with exactly one seen positive, ascending, at most `ITEMS` of them."""
    rows = np.flatnonzero(observed.per_item(1) == 1)
    if len(rows) < FEWEST:
        raise InputError(
            f"{len(rows)} items have exactly one seen positive; to estimate how many labels an "
            f"item has, at least {FEWEST} are needed; count labels on a few items instead "
            "(--set expected_positives=1.5)"
        )
    if len(rows) > ITEMS:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:ITEMS])
    return rows
