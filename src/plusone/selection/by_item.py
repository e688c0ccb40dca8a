"""Selection scores of the order of labels within each item.

They ask how well the seen label is found among the labels of its item. An annotator who picks one
of several labels makes even a perfect model miss it at times, and a model that bets on the one
label that will be picked does better than one that finds all labels.
"""

from __future__ import annotations

import numpy as np

from plusone.metrics.inputs import Array
from plusone.selection.inputs import ranks_in_item, seen_positives

LEAST = 1e-6  # probabilities are kept this far from 0 and 1, or one surprise would decide
NODES = 64


def reciprocal_rank(probabilities: Array, observed: Array) -> float:
    """Mean of one over the rank of the seen label within its item.

    Args:
        probabilities: `[N, L]`.
        observed: `[N, L]`, 1 seen positive, 0 unobserved, -1 seen negative.

    Returns:
        The mean over seen positives, in `(0, 1]`.

    >>> reciprocal_rank(np.array([[0.9, 0.8, 0.1]]), np.array([[0, 1, 0]]))
    0.5
    """
    _, _, rank = ranks_in_item(*seen_positives(probabilities, observed))
    return float((1 / rank).mean())


def top_recall(probabilities: Array, observed: Array, k: int = 3) -> float:
    """Share of seen labels that are among the k most probable labels of their item.

    Args:
        probabilities: `[N, L]`.
        observed: `[N, L]`, 1 seen positive, 0 unobserved, -1 seen negative.
        k: How many labels are taken.

    Returns:
        The share of seen positives, in `[0, 1]`.

    >>> top_recall(np.array([[0.9, 0.8, 0.1]]), np.array([[0, 1, 0]]), k=1)
    0.0
    """
    _, _, rank = ranks_in_item(*seen_positives(probabilities, observed))
    return float((rank <= k).mean())


def pick_likelihood(probabilities: Array, observed: Array) -> float:
    """Mean log-likelihood of the seen label if one of the item's labels is picked uniformly.

    The labels Y of an item are taken for independent, with the given probabilities, and one of them
    is picked, so the label l is seen with probability

        E[y_l / |Y|] / P(Y is not empty),  E[y_l / |Y|] = ∫ p_l Π_{j≠l} (1 - p_j + p_j t) dt

    over t from 0 to 1.

    Args:
        probabilities: `[N, L]`.
        observed: `[N, L]`, 1 seen positive, 0 unobserved, -1 seen negative.

    Returns:
        The mean over seen positives, at most 0.

    >>> round(pick_likelihood(np.array([[0.5, 0.5]]), np.array([[0, 1]])), 3)
    -0.693
    """
    values, positive = seen_positives(probabilities, observed)
    rows, labels = np.nonzero(positive)
    p = np.clip(values.astype(np.float64), LEAST, 1 - LEAST)
    own = p[rows, labels]
    # A polynomial of degree L - 1: this many nodes integrate it exactly, up to a limit.
    nodes, weights = np.polynomial.legendre.leggauss(min(NODES, p.shape[1] // 2 + 1))
    picked = np.zeros(len(rows))
    for t, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        others = np.log1p(p * (t - 1)).sum(axis=1)[rows] - np.log1p(own * (t - 1))
        picked += weight * own * np.exp(others)
    some = -np.expm1(np.log1p(-p).sum(axis=1))[rows]
    return float(np.log(picked / some).mean())
