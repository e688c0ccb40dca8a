"""k and class priors from features and seen labels: a simple model, then its calibration.

The model is kernel ridge regression on the seen labels. Its leave-one-out predictions have a closed
form, so every item is scored by a model that was not fitted on it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.closed_form.kernel import KernelMap, n_landmarks
from plusone.closed_form.ridge import Ridge, pick_probabilities, seen_label_regression
from plusone.data.groups import group_numbers
from plusone.data.matrix import LabelMatrix
from plusone.probabilities.k import (
    LabelsPerItem,
    Priors,
    from_single_positives,
    labels_per_item,
    refuse_few,
)

ITEMS = 20_000  # largest number of items that are fitted on
FEW_PENALTIES = (0.1, 0.25, 0.6, 1.5, 4.0, 10.0)  # one is chosen by the leave-one-out error


def from_features(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None = None, *, seed: int = 0
) -> Priors:
    """Estimates k and class priors, assuming uniform picking among an item's labels.

    Args:
        x: Features of the items, `[N, D]`, or tokens `[N, T, D]`, which are averaged.
        observed: Seen labels, `[N, L]`; items with a seen positive are used, at most 20,000.
        groups: The group of each item, `[N]`, where items belong together.
        seed: Seed of the sample of items if there are more.
    """
    return from_single_positives(*_scored(x, observed, groups, seed))


def k_from_features(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None = None, *, seed: int = 0
) -> LabelsPerItem:
    """The k of `from_features`, without class priors."""
    return labels_per_item(*_scored(x, observed, groups, seed))


def usable_rows(observed: LabelMatrix, seed: int = 0) -> npt.NDArray[np.int64]:
    """Rows with a seen positive, ascending, at most `ITEMS` of them."""
    rows = np.flatnonzero(observed.per_item(1) > 0)
    refuse_few(len(rows))
    if len(rows) > ITEMS:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:ITEMS])
    return rows


def _scored(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None, seed: int
) -> tuple[npt.NDArray[np.float64], LabelMatrix]:
    """Out-of-sample scores of the usable items, and their seen labels."""
    rows = usable_rows(observed, seed)
    seen = observed.take(rows)
    groups = None if groups is None else np.asarray(groups)[rows]
    return seen_label_scores(x[torch.from_numpy(rows)], seen, groups), seen


def seen_label_scores(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None = None
) -> npt.NDArray[np.float64]:
    """Leave-one-out probabilities that each class is the seen one, `[n, L]`; rows sum to 1.

    Args:
        x: Features, `[n, D]` or `[n, T, D]`.
        observed: Seen labels of the items, each of which has a positive, `[n, L]`.
        groups: The group of each item, `[n]`; an item is left out together with its group.
    """
    number = None if groups is None else torch.from_numpy(group_numbers(groups))
    x = (x.mean(dim=1) if x.ndim == 3 else x).float()
    with torch.no_grad():
        vectors = KernelMap(x.shape[1], n_landmarks(len(x))).fit(x)
        return ridge_scores(Ridge(vectors, groups=number), observed)


def ridge_scores(ridge: Ridge, observed: LabelMatrix) -> npt.NDArray[np.float64]:
    """The same from a regression whose vectors are known."""
    states = torch.from_numpy(observed.dense()).float()
    with torch.no_grad():
        solution, _ = seen_label_regression(ridge, states, FEW_PENALTIES)
        return np.asarray(pick_probabilities(solution.left_out.double(), states))
