"""Metrics of the order of scores: average precision per label, and three per item.

Average precision is the step-wise one, `AP = Σ_k (R_k - R_{k-1}) P_k` over the distinct scores in
falling order, where all items of one score enter at once. Written per positive it is

    AP = 1/|P| Σ_{i in P}  |{j in P: s_j >= s_i}| / |{j: s_j >= s_i}|

so two sorts of the scores and two binary searches give it exactly; the items need not be sorted,
and ties need no special treatment.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.metrics._inputs import (
    Array,
    Bools,
    Empty,
    Floats,
    Unknown,
    mean_over_classes,
    ratio,
    row_blocks,
    validate,
)

CHUNK_CLASSES = 16  # columns copied at once: one cache line of float32 per item
CHUNK_ROWS = 8192


def average_precision(scores: Array, truth: Array, unknown: Unknown = "auto") -> Tensor:
    """Step-wise average precision of each class, exact also for tied scores.

    Args:
        scores: `[N, L]`, higher means more likely positive.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        unknown: What a 0 means (`Unknown`). Masked, a class is ranked among its known labels.

    Returns:
        `[L]`, float64 on the CPU; NaN for a class without a positive, and for one with unknown
        labels of which no negative is known: nothing could be ranked wrongly.

    >>> average_precision(torch.tensor([[0.9], [0.8], [0.7]]), torch.tensor([[1], [0], [1]]))
    tensor([0.8333], dtype=torch.float64)
    """
    return torch.from_numpy(_known_average_precision(*validate(scores, truth, unknown)))


def _known_average_precision(values: Floats, positive: Bools, known: Bools | None) -> Floats:
    """Average precision of each class over its known labels, `[L]`, see `average_precision`."""
    result = counted_average_precision(values, positive, known)
    if known is not None:
        result[~(known & ~positive).any(0) & ~known.all(0)] = np.nan
    return result


def counted_average_precision(
    values: Floats, positive: Bools, counted: Bools | None = None
) -> Floats:
    """Average precision of each class over its counted labels, `[L]`; NaN without a positive.

    Args:
        values: Scores `[N, L]`.
        positive: Positives `[N, L]`.
        counted: Which labels count, `[N, L]`; None for all.
    """
    result = np.empty(values.shape[1])
    for start in range(0, result.size, CHUNK_CLASSES):
        chunk = slice(start, start + CHUNK_CLASSES)
        columns, masks = (np.ascontiguousarray(each[:, chunk].T) for each in (values, positive))
        free = None if counted is None else np.ascontiguousarray(counted[:, chunk].T)
        for offset, (column, mask) in enumerate(zip(columns, masks, strict=True)):
            if free is not None:
                column, mask = column[free[offset]], mask[free[offset]]
            result[start + offset] = sorted_average_precision(np.sort(column), column[mask])
    return result


def sorted_average_precision(ordered: Floats, positives: Floats) -> float:
    """Average precision of one class; NaN without a positive.

    `ordered` are the scores of all items, rising, `[N]`; `positives` those of the positives, `[P]`.

    >>> sorted_average_precision(np.array([0.7, 0.8, 0.9]), np.array([0.8]))
    0.5
    """
    if not positives.size:
        return float("nan")
    positives = np.sort(positives)
    retrieved = ordered.size - np.searchsorted(ordered, positives)
    hits = positives.size - np.searchsorted(positives, positives)
    return float((hits / retrieved).mean())


def mean_average_precision(
    scores: Array, truth: Array, empty: Empty = "skip", unknown: Unknown = "auto"
) -> float:
    """The mean over classes of `average_precision`, in `[0, 1]`.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        empty: `"skip"` leaves classes without a positive out (NaN if no class has one);
            `"zero"` counts them as 0, as the protocol of Cole et al. 2021 does.
        unknown: What a 0 means. Masked, classes without a known negative are left out.

    Returns:
        The mean average precision.

    >>> scores, truth = torch.tensor([[0.9, 0.1], [0.2, 0.3]]), torch.tensor([[1, 0], [0, 0]])
    >>> mean_average_precision(scores, truth)
    1.0
    >>> mean_average_precision(scores, truth, empty="zero")
    0.5
    """
    values, positive, known = validate(scores, truth, unknown)
    per_class = _known_average_precision(values, positive, known)
    has_positive = np.asarray(positive.any(axis=0))
    measured = ~(has_positive & np.isnan(per_class))
    return mean_over_classes(per_class[measured], has_positive[measured], empty)


def mean_by_level(
    per_class: npt.ArrayLike, level: npt.NDArray[np.int64]
) -> tuple[float | None, ...]:
    """The mean over the classes of each level of a hierarchy, the top first.

    Args:
        per_class: A figure of each class, `[L]`; NaN where there is none.
        level: Of each class, from 1, `[L]`.

    >>> mean_by_level([0.9, 0.5, 0.7, float("nan")], np.array([1, 2, 2, 3]))
    (0.9, 0.6, None)
    """
    values = np.asarray(per_class, dtype=np.float64)
    own = (values[(level == number) & ~np.isnan(values)] for number in range(1, level.max() + 1))
    return tuple(float(part.mean()) if len(part) else None for part in own)


def roc_auc(scores: Array, truth: Array, unknown: Unknown = "auto") -> Tensor:
    """Area under the ROC curve of each class: how often a positive item is above a negative one.

    A tie counts one half.

    Args:
        scores: `[N, L]`, higher means more likely positive.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        unknown: What a 0 means. Masked, a class has its known labels only.

    Returns:
        `[L]`, float64 on the CPU; NaN for a class without a positive or without a negative.

    >>> roc_auc(torch.tensor([[0.9], [0.8], [0.7]]), torch.tensor([[1], [0], [1]]))
    tensor([0.5000], dtype=torch.float64)
    """
    values, positive, known = validate(scores, truth, unknown)
    negative = ~positive if known is None else ~positive & known
    result = np.full(values.shape[1], np.nan)
    for number in range(len(result)):
        column = values[:, number]
        own, others = column[positive[:, number]], np.sort(column[negative[:, number]])
        if own.size and others.size:
            below = np.searchsorted(others, own) + np.searchsorted(others, own, side="right")
            result[number] = below.mean() / (2 * others.size)
    return torch.from_numpy(result)


def mean_roc_auc(scores: Array, truth: Array, unknown: Unknown = "auto") -> float:
    """The mean of `roc_auc` over the classes where it is defined; NaN if there is none.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        unknown: What a 0 means. Masked, a class has its known labels only.

    >>> mean_roc_auc(torch.tensor([[0.9, 0.1], [0.2, 0.3]]), torch.tensor([[1, 0], [0, 0]]))
    1.0
    """
    return float(roc_auc(scores, truth, unknown).nanmean())


def coverage_error(scores: Array, truth: Array, unknown: Unknown = "auto") -> float:
    """Mean number of top-ranked labels needed to include all positives of an item.

    Per item `|{l: s_l >= min over positives of s}|`, so tied labels all count. An item without a
    positive counts as 0, as in scikit-learn.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        unknown: What a 0 means. Masked, the item has its known labels only.

    Returns:
        The mean over items, in `[0, L]`; the best value is the mean number of positives.

    >>> coverage_error(torch.tensor([[0.9, 0.8, 0.7]]), torch.tensor([[1, 0, 1]]))
    3.0
    """
    needed = []
    for values, positive, known in row_blocks(*validate(scores, truth, unknown)):
        lowest = np.where(positive, values, np.inf).min(axis=1, keepdims=True)
        count = np.count_nonzero((values >= lowest) & known, axis=1)
        needed.append(np.where(positive.any(axis=1), count, 0))
    return float(np.concatenate(needed).mean())


def ranking_loss(scores: Array, truth: Array, unknown: Unknown = "auto") -> float:
    """Mean share of the (positive, negative) label pairs of an item in the wrong order.

    Per item `|{(p, n): s_p <= s_n}| / (|P| |N|)`, so a tie counts as wrong. An item with positives
    only or negatives only counts as 0, as in scikit-learn.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        unknown: What a 0 means. Masked, the item has its known labels only.

    Returns:
        The mean over items, in `[0, 1]`, 0 is best.

    >>> ranking_loss(torch.tensor([[0.9, 0.8, 0.7]]), torch.tensor([[1, 0, 1]]))
    0.5
    """
    values, positive, known = validate(scores, truth, unknown)
    negative = ~positive if known is None else ~positive & known
    total = 0.0
    for start in range(0, len(values), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        total += float(_item_ranking_losses(values[rows], positive[rows], negative[rows]).sum())
    return total / len(values)


def _item_ranking_losses(values: Floats, positive: Bools, negative: Bools) -> Floats:
    """The ranking loss of each row, `[n, L] -> [n]`, by one binary search per score."""
    count = np.count_nonzero(positive, axis=1)
    ordered = np.where(positive, values, values.dtype.type(np.inf))
    ordered.sort(axis=1)
    not_above = torch.searchsorted(
        torch.from_numpy(ordered), torch.from_numpy(values.copy()), right=True
    ).numpy()
    # A score of +inf also counts the padding that follows the positives: exclude it.
    not_above = np.minimum(not_above, count[:, None])
    wrong = np.where(negative, not_above, 0).sum(axis=1)
    pairs = count * np.count_nonzero(negative, axis=1)
    losses: Floats = wrong / np.maximum(pairs, 1)
    return losses


def one_error(scores: Array, truth: Array, unknown: Unknown = "auto") -> float:
    """The share of items whose label with the highest score is not a positive.

    Items without a positive are left out; of tied labels the one with the lower index counts.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        unknown: What a 0 means. Masked, the item has its known labels only.

    Returns:
        The share, in `[0, 1]`, 0 is best; NaN if no item has a positive.

    >>> one_error(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([[1, 0], [0, 1]]))
    0.5
    """
    values, positive, known = validate(scores, truth, unknown)
    top = (values if known is None else np.where(known, values, -np.inf)).argmax(axis=1)
    counted = positive.any(axis=1)
    hit = positive[np.arange(len(values)), top]
    return ratio((counted & ~hit).sum(), counted.sum())
