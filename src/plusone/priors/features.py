"""k and class priors from features and single positives: a cheap model, then its calibration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.priors.estimate import FEWEST, ITEMS, Priors, from_single_positives, picked_of
from plusone.priors.premodel import cross_fitted_picks


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
