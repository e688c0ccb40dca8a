"""One threshold per class, chosen on held-out items of which only some labels were seen.

The share of a class's seen positives above a threshold estimates its recall r, because seen
positives are a sample of all positives. The share of all items above it is m. Precision is r π / m
with π, the share of items that have the class, which seen labels do not tell. Two ways past that:

- where the number of positives per item k is known, π follows from it: an annotator who picks one
  of the k labels of an item shows a class 1 / k as often as it occurs. Then the threshold of best
  F1 = 2 r π / (π + m) is taken. The same if all labels are known;
- otherwise that of best r² / m, which is precision times recall over π, so π need not be known
  (Lee and Liu, Learning with Positive and Unlabeled Examples Using Weighted Logistic Regression,
  ICML 2003).

A class has few seen positives among held-out items, and the best threshold of few is mostly chance.
So each is drawn towards the one threshold that suits all classes together: the mean of the two
logits, weighted by the number of seen positives and a constant.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plusone.metrics.inputs import Array, Bools, Floats, validate, validate_labels

# Chosen by test F1 on four data sets: 10 to 20 and 50 to 100 were best, and flat there.
SHRINKAGE_F1, SHRINKAGE_PRODUCT = 20.0, 50.0
CANDIDATES = 201  # common thresholds that are tried: quantiles of the scores of seen positives
EDGE = 1e-6  # scores are kept this far from 0 and 1 when logits are averaged


def thresholds_from(
    scores: Array, observed: Array, *, expected_positives: float | None = None
) -> npt.NDArray[np.float64]:
    """Thresholds of each class; a label is predicted if its score is above.

    Args:
        scores: Scores in [0, 1] of items the model has not been trained on, `[N, L]`.
        observed: Their labels, 1 seen, 0 not known, -1 seen to be absent, `[N, L]`. If no entry
            is 0, these are all labels.
        expected_positives: How many positives an item has on average (k), if that is known.

    Returns:
        `[L]`, in (0, 1). A class without a seen positive gets the common threshold; 0.5 for all
        if nothing was seen.

    Raises:
        ValueError: Shapes differ, scores are not in [0, 1], or labels are not 1, 0, -1.

    >>> scores = np.array([[0.9], [0.8], [0.3], [0.1]])
    >>> thresholds_from(scores, np.array([[1], [1], [-1], [-1]])).round(2)
    array([0.55])
    """
    states = validate_labels(observed, np.shape(scores), "observed")
    values, positive = validate(scores, states)
    if values.min() < 0 or values.max() > 1:
        raise ValueError("scores must be in [0, 1].")
    counts = np.count_nonzero(positive, axis=0)
    if not counts.any():
        return np.full(len(counts), 0.5)
    priors = _priors(counts, len(values), states, expected_positives)
    ordered = np.sort(values.T, axis=1)
    common = _common(values, positive, ordered, priors)
    own = np.full(len(counts), common)
    for label in np.flatnonzero(counts):
        prior = None if priors is None else priors[label]
        own[label] = _best(ordered[label], values[positive[:, label], label], prior)
    weight = counts / (counts + (SHRINKAGE_PRODUCT if priors is None else SHRINKAGE_F1))
    mixed: npt.NDArray[np.float64] = 1 / (
        1 + np.exp(-(weight * _logit(own) + (1 - weight) * _logit(np.asarray(common))))
    )
    return mixed


def _priors(
    counts: npt.NDArray[np.intp], n: int, states: npt.NDArray[np.generic], k: float | None
) -> Floats | None:
    """The share of items that have each class, where it can be told."""
    if not np.any(states == 0):
        return counts / n
    if k is None:
        return None
    seen_per_item = counts.sum() / n
    shares: Floats = np.minimum(counts / n * max(k / seen_per_item, 1.0), 1.0)
    return shares


def _quality(recall: Floats, share: Floats, prior: float | None) -> Floats:
    """What a threshold is chosen by: F1, or what is in proportion to precision times recall."""
    if prior is None:
        return recall**2 / share
    return 2 * recall * prior / (prior + share)


def _best(ordered: Floats, positives: Floats, prior: float | None) -> float:
    """The best threshold of one class: half way from a seen positive to the next lower score.

    Args:
        ordered: Scores of all items, rising, `[N]`.
        positives: Scores of the seen positives, `[P]`, not empty.
        prior: Share of items that have the class, if known.
    """
    tried = np.sort(positives)
    recall = 1 - np.searchsorted(tried, tried) / len(tried)
    first = np.searchsorted(ordered, tried)
    quality = _quality(recall, 1 - first / len(ordered), prior)
    # Of equally good ones the highest.
    place = len(tried) - 1 - int(np.argmax(quality[::-1]))
    below = first[place] - 1
    lower = ordered[below] if below >= 0 else 0.0
    return float((float(tried[place]) + float(lower)) / 2)


def _common(values: Floats, positive: Bools, ordered: Floats, priors: Floats | None) -> float:
    """The threshold that is best for all classes, each counted by its seen positives."""
    seen = np.sort(values[positive])
    tried = np.unique(np.quantile(seen, np.linspace(0, 1, CANDIDATES)).astype(values.dtype))
    n, total = len(values), np.zeros(len(tried))
    for label in np.flatnonzero(positive.any(axis=0)):
        own = np.sort(values[positive[:, label], label])
        recall = 1 - np.searchsorted(own, tried) / len(own)
        share = np.maximum(n - np.searchsorted(ordered[label], tried), 1) / n
        if priors is None:
            # Times the share of seen ones, so that rare classes do not weigh more for being rare.
            total += len(own) ** 2 / n * _quality(recall, share, None)
        else:
            total += len(own) * _quality(recall, share, float(priors[label]))
    best = tried[int(np.argmax(total))]
    lower = values[values < best]
    return float((float(best) + float(lower.max() if lower.size else 0.0)) / 2)


def _logit(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    inside = np.clip(p, EDGE, 1 - EDGE)
    found: npt.NDArray[np.float64] = np.log(inside / (1 - inside))
    return found
