"""k and class priors from features and the seen positives alone.

The model behind them is kernel ridge regression on the seen labels, and labels recovered by it
(`plusone.closed_form.recover`). Its leave-one-out predictions have a closed form, so every item is
scored by a model that was not fitted on it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.closed_form.gamma import SAMPLED, best_kernel
from plusone.closed_form.kernel import KernelMap, n_landmarks
from plusone.closed_form.recover import recover_labels, with_test
from plusone.closed_form.ridge import Ridge, pick_probabilities, seen_label_regression
from plusone.closed_form.vectors import Rows
from plusone.data.groups import group_numbers
from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix
from plusone.probabilities.answered_k import k_by_answers
from plusone.probabilities.answers import marked_labels
from plusone.probabilities.k import LabelsPerItem, Priors, from_single_positives, refuse_few
from plusone.types import Picks

ITEMS = 20_000  # largest number of items whose features are used


def from_features(
    x: Tensor,
    observed: LabelMatrix,
    groups: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    picks: Picks = "auto",
    named: LabelMatrix | None = None,
    hierarchy: Hierarchy | None = None,
) -> Priors:
    """Estimates k, class priors, and how readily each class is named.

    Args:
        x: Features of the items, `[N, D]`, or tokens `[N, T, D]`, which are averaged.
        observed: Seen labels, `[N, L]`; items with a seen positive are used, at most 20,000.
        groups: The group of each item, `[N]`, where items belong together.
        seed: Seed of the sample of items if there are more.
        picks: "uniform" takes picks as random; otherwise saliences are learned.
        named: Which seen positives were named, where the others are answers.
        hierarchy: Which class lies below which, if the labels follow one.
    """
    ridge, seen = _regression(x, observed if named is None else named, groups, seed)
    estimate = _estimate(ridge, seen, picks, hierarchy, test=True)
    scores = ridge_scores(ridge, seen)
    if named is None:
        return from_single_positives(scores, seen, estimate)
    estimate = _by_answers(scores, estimate, observed, named, groups, seed)
    return from_single_positives(scores, observed.take(usable_rows(named, seed)), estimate)


def k_from_features(
    x: Tensor,
    observed: LabelMatrix,
    groups: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    picks: Picks = "auto",
    named: LabelMatrix | None = None,
    hierarchy: Hierarchy | None = None,
) -> LabelsPerItem:
    """The k and the saliences of `from_features`, without class priors and without a test."""
    ridge, seen = _regression(x, observed if named is None else named, groups, seed)
    estimate = _estimate(ridge, seen, picks, hierarchy, test=False)
    if named is None:
        return estimate
    return _by_answers(ridge_scores(ridge, seen), estimate, observed, named, groups, seed)


def _by_answers(
    scores: npt.NDArray[np.float64],
    estimate: LabelsPerItem,
    observed: LabelMatrix,
    named: LabelMatrix,
    groups: npt.ArrayLike | None,
    seed: int,
) -> LabelsPerItem:
    """The estimate from what was named, with k by the answers."""
    rows = usable_rows(named, seed)
    marked = marked_labels(observed.take(rows), named.take(rows))
    numbers = None if groups is None else group_numbers(np.asarray(groups)[rows])
    return k_by_answers(scores, marked, estimate, numbers)


def missed_labels(
    x: Tensor,
    observed: LabelMatrix,
    groups: npt.ArrayLike | None = None,
    *,
    picks: Picks = "auto",
    hierarchy: Hierarchy | None = None,
) -> Tensor:
    """Probability that a label is there although it was not named, `[n, L]`; 0 for seen labels.

    Args:
        x: Features, `[n, D]` or `[n, T, D]`.
        observed: Seen labels of the items, each of which has a positive, `[n, L]`.
        groups: The group of each item, `[n]`.
        picks: "uniform" takes picks as random; otherwise saliences are learned.
        hierarchy: Which class lies below which, if the labels follow one.
    """
    with torch.no_grad():
        ridge = _ridge(x, observed, groups)
        solution = recover_labels(ridge, observed, picks=picks, hierarchy=hierarchy)
        recovered = solution.recovered()
    return recovered.masked_fill_(torch.from_numpy(observed.dense()) != 0, 0.0)


def usable_rows(observed: LabelMatrix, seed: int = 0) -> npt.NDArray[np.int64]:
    """Rows with a seen positive, ascending, at most `ITEMS` of them."""
    rows = np.flatnonzero(observed.per_item(1) > 0)
    refuse_few(len(rows))
    if len(rows) > ITEMS:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:ITEMS])
    return rows


def seen_label_scores(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None = None
) -> npt.NDArray[np.float64]:
    """Leave-one-out probabilities that each class is the seen one, `[n, L]`; rows sum to 1.

    Args:
        x: Features, `[n, D]` or `[n, T, D]`.
        observed: Seen labels of the items, each of which has a positive, `[n, L]`.
        groups: The group of each item, `[n]`; an item is left out together with its group.
    """
    return ridge_scores(_ridge(x, observed, groups), observed)


def ridge_scores(ridge: Ridge, observed: LabelMatrix) -> npt.NDArray[np.float64]:
    """The same from a regression whose vectors are known."""
    states = torch.from_numpy(observed.dense())
    with torch.no_grad():
        left_out = seen_label_regression(ridge, observed).left_out()
        return np.asarray(pick_probabilities(left_out.double(), states))


def _regression(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None, seed: int
) -> tuple[Ridge, LabelMatrix]:
    """A regression on the features of the usable items, and their seen labels."""
    rows = usable_rows(observed, seed)
    groups, seen = None if groups is None else np.asarray(groups)[rows], observed.take(rows)
    return _ridge(x[torch.from_numpy(rows)], seen, groups), seen


def _ridge(x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None) -> Ridge:
    number = None if groups is None else torch.from_numpy(group_numbers(groups))
    x = (x.mean(dim=1) if x.ndim == 3 else x).float()
    some = torch.linspace(0, len(x) - 1, min(len(x), SAMPLED)).long()
    with torch.no_grad():
        own = None if number is None else torch.unique(number[some], return_inverse=True)[1]
        kernel = best_kernel(x[some], observed.take(some), own)
        landmarks = n_landmarks(len(x), observed.n_classes)
        space = KernelMap(x.shape[1], landmarks, kernel.gamma, kernel.kind)
        return Ridge(space.learn(Rows.of(x)), groups=number)


def _estimate(
    ridge: Ridge,
    observed: LabelMatrix,
    picks: Picks,
    hierarchy: Hierarchy | None,
    *,
    test: bool,
) -> LabelsPerItem:
    with torch.no_grad():
        solution = recover_labels(ridge, observed, picks=picks, hierarchy=hierarchy)
        solution = with_test(solution) if test and hierarchy is None else solution
    assert solution.estimate is not None
    return solution.estimate
