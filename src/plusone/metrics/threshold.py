"""Predictions by a threshold or by the k best labels per item: their metrics, and a good threshold.

PPV and NPV follow appendix A.3 of the LASD paper, which reports both per epoch: a label is
predicted if its score is above the threshold, and the two values are averaged over labels.

The macro F1 is the harmonic mean of CP and CR, as usual in multi-label image recognition, and not
the mean of the F1 of each class.

`thresholds_from` chooses one threshold per class on held-out items with partially seen labels.

The share of a class's seen positives above a threshold estimates its recall r, because seen
positives are a sample of all positives. The share of all items above it is m. Precision is r π / m,
where π is the share of items that have the class, which is unknown. There are two cases:

- If the number of positives per item k is known, π follows from it: if one of the k labels of an
  item is picked, a class is seen 1 / k as often as it occurs. The threshold with the best
  F1 = 2 r π / (π + m) is chosen. The same applies if all labels are known.
- Otherwise the threshold with the best r² / m is chosen, which is precision times recall over π, so
  that π is not needed (Lee and Liu, Learning with Positive and Unlabeled Examples Using Weighted
  Logistic Regression, ICML 2003).

A class has few seen positives among the held-out items, so its own best threshold is noisy. It is
shrunk towards the threshold that is best for all classes together: the mean of the two logits,
weighted by the number of seen positives and a constant.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plusone.metrics._inputs import (
    Array,
    Bools,
    Cut,
    Empty,
    Floats,
    Unknown,
    mean_over_classes,
    ratio,
    row_blocks,
    validate,
    validate_labels,
)

# Chosen by test F1 on four data sets: 10 to 20 and 50 to 100 were best, with little difference.
SHRINKAGE_F1, SHRINKAGE_PRODUCT = 20.0, 50.0
CANDIDATES = 201  # common thresholds to try: quantiles of the scores of seen positives
POOLED = 1 << 22  # probabilities that are pooled over classes
EDGE = 1e-6  # thresholds are clipped to [EDGE, 1 - EDGE] when logits are averaged


def precision_recall(
    scores: Array,
    truth: Array,
    *,
    threshold: Cut = 0.5,
    top_k: int | None = None,
    empty: Empty = "skip",
    unknown: Unknown = "auto",
) -> dict[str, float]:
    """Precision, recall and F1, averaged over classes (`c`) and pooled over all entries (`o`).

    With `TP_l` hits, `M_l` predictions and `P_l` positives of label l::

        cp = mean_l TP_l / M_l      cr = mean_l TP_l / P_l      cf1 = 2 cp cr / (cp + cr)
        op = Σ TP_l / Σ M_l         or = Σ TP_l / Σ P_l         of1 = 2 op or / (op + or)

    A label that is never predicted has precision 0, and an F1 is 0 where both its parts are.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        threshold: A label is predicted if its score is above it, one for all or `[L]`; not used
            with `top_k`.
        top_k: Predict exactly this many labels per item instead, those of highest score (of tied
            ones those of lower index); all labels if there are not more.
        empty: Classes without a positive are left out of `cp` and `cr` (`"skip"`) or count as 0
            (`"zero"`).
        unknown: What a 0 means. Masked, predictions of unknown labels do not count.

    Returns:
        The keys `cp, cr, cf1, op, or, of1`; recall and F1 are NaN if there is no positive to find.

    >>> scores, truth = np.array([[0.9, 0.6], [0.2, 0.7]]), np.array([[1, 0], [1, 1]])
    >>> {key: round(value, 3) for key, value in precision_recall(scores, truth).items()}
    {'cp': 0.75, 'cr': 0.75, 'cf1': 0.75, 'op': 0.667, 'or': 0.667, 'of1': 0.667}
    """
    values, labels, mask = validate(scores, truth, unknown)
    hits, predictions = np.zeros((2, values.shape[1]), dtype=np.int64)
    for part, positive, known in row_blocks(values, labels, mask):
        predicted = predict(part, threshold=threshold, top_k=top_k) & known
        hits += np.count_nonzero(predicted & positive, axis=0)
        predictions += np.count_nonzero(predicted, axis=0)
    present = np.count_nonzero(labels, axis=0)
    cp = mean_over_classes(hits / np.maximum(predictions, 1), present > 0, empty)
    cr = mean_over_classes(hits / np.maximum(present, 1), present > 0, empty)
    op = ratio(hits.sum(), predictions.sum(), otherwise=0.0)
    recall = ratio(hits.sum(), present.sum())
    return {
        "cp": cp,
        "cr": cr,
        "cf1": ratio(2 * cp * cr, cp + cr, otherwise=0.0),
        "op": op,
        "or": recall,
        "of1": ratio(2 * op * recall, op + recall, otherwise=0.0),
    }


def hamming_loss(
    scores: Array,
    truth: Array,
    *,
    threshold: Cut = 0.5,
    top_k: int | None = None,
    unknown: Unknown = "auto",
) -> float:
    """The share of all known entries whose prediction is wrong.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        threshold: As in `precision_recall`.
        top_k: As in `precision_recall`.
        unknown: As in `precision_recall`.

    Returns:
        The share, in `[0, 1]`, 0 is best.

    >>> hamming_loss(np.array([[0.9, 0.6], [0.2, 0.7]]), np.array([[1, 0], [1, 1]]))
    0.5
    """
    values, labels, mask = validate(scores, truth, unknown)
    wrong = sum(
        np.count_nonzero((predict(part, threshold=threshold, top_k=top_k) != positive) & known)
        for part, positive, known in row_blocks(values, labels, mask)
    )
    return ratio(wrong, values.size if mask is None else np.count_nonzero(mask))


def predictive_values(
    scores: Array, truth: Array, *, threshold: Cut = 0.5, unknown: Unknown = "auto"
) -> dict[str, float]:
    """Positive and negative predictive values.

    Per label `PPV = TP / (TP + FP)` and `NPV = TN / (TN + FN)`; `ppv` and `npv` are the means over
    the labels that have any such prediction (the paper does not mention the others), `ppv_pooled`
    and `npv_pooled` divide the sums over all labels.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        threshold: The τ of the paper: a label is predicted if its score is above it.
        unknown: As in `precision_recall`.

    Returns:
        The keys `ppv, npv, ppv_pooled, npv_pooled`; NaN where there is no such prediction at all.

    >>> scores, truth = np.array([[0.9, 0.6], [0.2, 0.7]]), np.array([[1, 0], [1, 1]])
    >>> {key: round(value, 3) for key, value in predictive_values(scores, truth).items()}
    {'ppv': 0.75, 'npv': 0.0, 'ppv_pooled': 0.667, 'npv_pooled': 0.0}
    """
    values, labels, mask = validate(scores, truth, unknown)
    counts = np.zeros((2, 2, values.shape[1]), dtype=np.int64)
    for part, positive, known in row_blocks(values, labels, mask):
        predicted = predict(part, threshold=threshold)
        for row, (chosen, correct) in enumerate(((predicted, positive), (~predicted, ~positive))):
            counts[row, 0] += np.count_nonzero(chosen & known, axis=0)
            counts[row, 1] += np.count_nonzero(chosen & correct & known, axis=0)
    result = {}
    pooled = {}
    for key, (predictions, hits) in zip(("ppv", "npv"), counts, strict=True):
        result[key] = mean_over_classes(hits / np.maximum(predictions, 1), predictions > 0, "skip")
        pooled[f"{key}_pooled"] = ratio(hits.sum(), predictions.sum())
    return result | pooled


def predict(scores: Floats, *, threshold: Cut = 0.5, top_k: int | None = None) -> Bools:
    """Binary predictions `[N, L]` from scores `[N, L]`, as `precision_recall` makes them.

    >>> predict(np.array([[0.9, 0.2, 0.6]]))
    array([[ True, False,  True]])
    >>> predict(np.array([[0.5, 0.5, 0.5]]), top_k=2)
    array([[ True,  True, False]])
    """
    if top_k is None:
        return scores > threshold
    if top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}.")
    labels = scores.shape[1]
    if top_k >= labels:
        return np.ones(scores.shape, dtype=np.bool_)
    # All scores above the k-th best are included, and of those equal to it the first ones.
    edge = np.partition(scores, labels - top_k, axis=1)[:, labels - top_k, None]
    inside: Bools = scores > edge
    tied = scores == edge
    room = top_k - np.count_nonzero(inside, axis=1)[:, None]
    inside |= tied & (np.cumsum(tied, axis=1) <= room)
    return inside


def thresholds_from(
    scores: Array, observed: Array, *, expected_positives: float | None = None
) -> npt.NDArray[np.float64]:
    """A threshold for each class; a label is predicted if its score is above it.

    Args:
        scores: Scores in [0, 1] of items the model has not been trained on, `[N, L]`.
        observed: Their labels, 1 seen positive, 0 unobserved, -1 seen negative, `[N, L]`. If no
            entry is 0, all labels are known.
        expected_positives: Mean number of positives per item (k), if it is known.

    Returns:
        `[L]`, in (0, 1). A class without a seen positive gets the common threshold; all are 0.5
        if there is no seen positive.

    Raises:
        ValueError: Shapes differ, scores are not in [0, 1], or labels are not 1, 0, -1.

    >>> scores = np.array([[0.9], [0.8], [0.3], [0.1]])
    >>> thresholds_from(scores, np.array([[1], [1], [-1], [-1]])).round(2)
    array([0.55])
    """
    states = validate_labels(observed, np.shape(scores), "observed")
    values, positive, _ = validate(scores, states)
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
    return _sigmoid(weight * _logit(own) + (1 - weight) * _logit(np.asarray(common)))


def thresholds_by_expected_f1(probabilities: Array) -> npt.NDArray[np.float64]:
    """A threshold for each class from calibrated probabilities `[N, L]` alone, without labels.

    The expected F1 of predicting the m most probable items is about
    `2 * (sum of their p) / (m + sum of all p)`, and its best threshold is half of its largest value
    (Lipton et al. 2014). The threshold of a class lies halfway, in log-odds, between the best one
    of the class and the best one for the labels of all classes pooled.

    >>> thresholds_by_expected_f1(np.array([[0.9], [0.9], [0.1], [0.1]])).round(2)
    array([0.45])
    """
    p = np.asarray(probabilities)
    own = np.array([_best_expected(column) for column in p.T])
    pooled = _best_expected(p[:: max(1, p.size // POOLED)].ravel())
    return _sigmoid((_logit(own) + _logit(np.asarray(pooled))) / 2)


def _best_expected(p: npt.NDArray[np.generic]) -> float:
    """The threshold of largest expected F1 of probabilities `[n]`."""
    hits = np.cumsum(np.sort(p)[::-1], dtype=np.float64)
    return float((hits / (np.arange(1, len(p) + 1) + hits[-1])).max())


def _priors(
    counts: npt.NDArray[np.intp], n: int, states: npt.NDArray[np.generic], k: float | None
) -> Floats | None:
    """The share of items that have each class; None if it is unknown."""
    if not np.any(states == 0):
        return counts / n
    if k is None:
        return None
    seen_per_item = counts.sum() / n
    shares: Floats = np.minimum(counts / n * max(k / seen_per_item, 1.0), 1.0)
    return shares


def _quality(recall: Floats, share: Floats, prior: float | None) -> Floats:
    """The criterion of a threshold: F1, or a multiple of precision times recall."""
    if prior is None:
        return recall**2 / share
    return 2 * recall * prior / (prior + share)


def _best(ordered: Floats, positives: Floats, prior: float | None) -> float:
    """The best threshold of one class, halfway between a seen positive and the next lower score.

    `ordered` are the scores of all items, ascending, `[N]`, `positives` those of the seen, `[P]`.
    """
    candidates = np.sort(positives)
    recall = 1 - np.searchsorted(candidates, candidates) / len(candidates)
    first = np.searchsorted(ordered, candidates)
    quality = _quality(recall, 1 - first / len(ordered), prior)
    # Of equally good thresholds, the highest.
    place = len(candidates) - 1 - int(np.argmax(quality[::-1]))
    below = first[place] - 1
    lower = ordered[below] if below >= 0 else 0.0
    return float((float(candidates[place]) + float(lower)) / 2)


def _common(values: Floats, positive: Bools, ordered: Floats, priors: Floats | None) -> float:
    """The best common threshold; classes are weighted by their number of seen positives."""
    seen = np.sort(values[positive])
    candidates = np.unique(np.quantile(seen, np.linspace(0, 1, CANDIDATES)).astype(values.dtype))
    n, total = len(values), np.zeros(len(candidates))
    for label in np.flatnonzero(positive.any(axis=0)):
        own = np.sort(values[positive[:, label], label])
        recall = 1 - np.searchsorted(own, candidates) / len(own)
        share = np.maximum(n - np.searchsorted(ordered[label], candidates), 1) / n
        if priors is None:
            # Weighted by the share of seen positives, so that rare classes do not dominate.
            total += len(own) ** 2 / n * _quality(recall, share, None)
        else:
            total += len(own) * _quality(recall, share, float(priors[label]))
    best = candidates[int(np.argmax(total))]
    lower = values[values < best]
    return float((float(best) + float(lower.max() if lower.size else 0.0)) / 2)


def _logit(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    inside = np.clip(p, EDGE, 1 - EDGE)
    return np.log(inside / (1 - inside))


def _sigmoid(z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return 1 / (1 + np.exp(-z))
