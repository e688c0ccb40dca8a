"""Selection scores of the order of items within each class.

What is known of a class are some of its positives. If those are picked at random, the mean over
them of anything that depends on an item's place in the order is an unbiased estimate of the mean
over all positives. So a score that looks only at how many items stand above a positive, as the area
under the ROC curve does, can be had from seen positives. Precision cannot: among the items above a
positive are hidden positives, and it takes them for mistakes.
"""

from __future__ import annotations

import numpy as np

from plusone.metrics import mean_average_precision
from plusone.metrics.inputs import Array
from plusone.selection.inputs import Float64, items_above, seen_positives


def seen_map(probabilities: Array, observed: Array) -> float:
    """The mAP with every label that is not a seen positive taken for a negative.

    Args:
        probabilities: `[N, L]`.
        observed: `[N, L]`, 1 seen positive, 0 unobserved, -1 seen negative.

    Returns:
        The mean over classes with a seen positive, in `[0, 1]`.

    >>> seen_map(np.array([[0.9], [0.8], [0.7]]), np.array([[0], [1], [0]]))
    0.5
    """
    values, positive = seen_positives(probabilities, observed)
    return mean_average_precision(values, positive, empty="skip")


def seen_auc(probabilities: Array, observed: Array) -> float:
    """Mean over classes of the area under the ROC curve of seen positives against all other items.

    With a share h of hidden positives among the others it is `(1 - h) AUC + h / 2` if positives are
    seen at random: what has the higher true AUC of a class has the higher value.

    Args:
        probabilities: `[N, L]`.
        observed: `[N, L]`, 1 seen positive, 0 unobserved, -1 seen negative.

    Returns:
        The mean over classes with a seen positive, in `[0, 1]`; a class whose items are all seen
        positives counts 0.5.

    >>> seen_auc(np.array([[0.9], [0.8], [0.7]]), np.array([[0], [1], [0]]))
    0.5
    """
    areas, _ = _areas(probabilities, observed)
    return float(areas.mean())


def weighted_auc(probabilities: Array, observed: Array) -> float:
    """As `seen_auc`, each class with the root of its number of seen positives for weight.

    A class with few seen positives says little, and as one of many its noise would decide. Weights
    by the number itself would make the score one of the frequent classes alone.

    Args:
        probabilities: `[N, L]`.
        observed: `[N, L]`, 1 seen positive, 0 unobserved, -1 seen negative.

    Returns:
        The weighted mean over classes with a seen positive, in `[0, 1]`.

    >>> found, seen = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([[1, 1], [0, 0]])
    >>> weighted_auc(found, seen)
    0.5
    """
    areas, counts = _areas(probabilities, observed)
    return float(np.average(areas, weights=np.sqrt(counts)))


def _areas(probabilities: Array, observed: Array) -> tuple[Float64, Float64]:
    """AUC of each class with a seen positive, and how many it has."""
    values, positive = seen_positives(probabilities, observed)
    areas, counts = [], []
    for _, above in items_above(values, positive):
        n, others = len(above), len(values) - len(above)
        wrong = above.sum() - n * (n - 1) / 2  # pairs, without those among the seen positives
        areas.append(1 - wrong / (n * others) if others else 0.5)
        counts.append(n)
    return np.array(areas), np.array(counts, dtype=float)


def log_rank(probabilities: Array, observed: Array) -> float:
    """Mean over classes and their seen positives of `-log` of the share of items not below.

    It looks more at the top of the order than the area under the ROC curve does.

    Args:
        probabilities: `[N, L]`.
        observed: `[N, L]`, 1 seen positive, 0 unobserved, -1 seen negative.

    Returns:
        The mean over classes with a seen positive, in `[0, log N]`.

    >>> round(log_rank(np.array([[0.9], [0.8], [0.7]]), np.array([[1], [0], [0]])), 3)
    1.099
    """
    values, positive = seen_positives(probabilities, observed)
    found = [
        -np.log((above + 1) / len(values)).mean() for _, above in items_above(values, positive)
    ]
    return float(np.mean(found))


def corrected_map(probabilities: Array, observed: Array, k: float = 2.0) -> float:
    """The mAP with the precision that positive-unlabelled data allows to estimate.

    Precision at a threshold is prior times recall over the share of items above it. Recall is that
    of the seen positives, and the prior of a class is k times its share of seen positives; a
    precision above 1 counts as 1. Without that limit it would be k times `seen_map`.

    Args:
        probabilities: `[N, L]`.
        observed: `[N, L]`, 1 seen positive, 0 unobserved, -1 seen negative.
        k: True positives for each seen one.

    Returns:
        The mean over classes with a seen positive, in `[0, 1]`.

    >>> corrected_map(np.array([[0.9], [0.8], [0.7]]), np.array([[0], [1], [0]]))
    1.0
    """
    values, positive = seen_positives(probabilities, observed)
    found = []
    for _, above in items_above(values, positive):
        recalled = np.arange(1, len(above) + 1)
        found.append(np.minimum(k * recalled / (above + 1), 1).mean())
    return float(np.mean(found))
