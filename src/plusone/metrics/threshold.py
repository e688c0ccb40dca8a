"""Metrics of yes-or-no predictions, made by a threshold or by taking the k best labels per item.

PPV and NPV follow appendix A.3 of the LASD paper, which reports both per epoch: a label is
predicted if its score is above the threshold, and the two values are averaged over labels.

The macro F1 is the harmonic mean of CP and CR, as tables of multi-label image recognition have it,
and not the mean of the F1 of each class.
"""

from __future__ import annotations

import numpy as np

from plusone.metrics.inputs import (
    Array,
    Bools,
    Cut,
    Empty,
    Floats,
    mean_over_classes,
    ratio,
    row_blocks,
    validate,
)


def precision_recall(
    scores: Array,
    truth: Array,
    *,
    threshold: Cut = 0.5,
    top_k: int | None = None,
    empty: Empty = "skip",
) -> dict[str, float]:
    """Precision, recall and F1, averaged over classes (`c`) and pooled over all entries (`o`).

    With `TP_l` hits, `M_l` predictions and `P_l` positives of label l::

        cp = mean_l TP_l / M_l      cr = mean_l TP_l / P_l      cf1 = 2 cp cr / (cp + cr)
        op = Σ TP_l / Σ M_l         or = Σ TP_l / Σ P_l         of1 = 2 op or / (op + or)

    A label that is never predicted has precision 0, and an F1 is 0 where both its parts are.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, 0 or -1 for a negative.
        threshold: A label is predicted if its score is above it, one for all or `[L]`; not used
            with `top_k`.
        top_k: Predict exactly this many labels per item instead, those of highest score (of tied
            ones those of lower index); all labels if there are not more.
        empty: Classes without a positive are left out of `cp` and `cr` (`"skip"`) or count as 0
            (`"zero"`).

    Returns:
        The keys `cp, cr, cf1, op, or, of1`; recall and F1 are NaN if there is no positive to find.

    Raises:
        ValueError: The inputs are not as said.

    >>> scores, truth = np.array([[0.9, 0.6], [0.2, 0.7]]), np.array([[1, 0], [1, 1]])
    >>> {key: round(value, 3) for key, value in precision_recall(scores, truth).items()}
    {'cp': 0.75, 'cr': 0.75, 'cf1': 0.75, 'op': 0.667, 'or': 0.667, 'of1': 0.667}
    """
    values, labels = validate(scores, truth)
    hits, made = np.zeros((2, values.shape[1]), dtype=np.int64)
    for part, positive in row_blocks(values, labels):
        predicted = predict(part, threshold=threshold, top_k=top_k)
        hits += np.count_nonzero(predicted & positive, axis=0)
        made += np.count_nonzero(predicted, axis=0)
    present = np.count_nonzero(labels, axis=0)
    cp = mean_over_classes(hits / np.maximum(made, 1), present > 0, empty)
    cr = mean_over_classes(hits / np.maximum(present, 1), present > 0, empty)
    op = ratio(hits.sum(), made.sum(), otherwise=0.0)
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
    scores: Array, truth: Array, *, threshold: Cut = 0.5, top_k: int | None = None
) -> float:
    """The share of all entries that are predicted wrongly.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, 0 or -1 for a negative.
        threshold: As in `precision_recall`.
        top_k: As in `precision_recall`.

    Returns:
        The share, in `[0, 1]`, 0 is best.

    Raises:
        ValueError: The inputs are not as said.

    >>> hamming_loss(np.array([[0.9, 0.6], [0.2, 0.7]]), np.array([[1, 0], [1, 1]]))
    0.5
    """
    values, labels = validate(scores, truth)
    wrong = sum(
        np.count_nonzero(predict(part, threshold=threshold, top_k=top_k) != positive)
        for part, positive in row_blocks(values, labels)
    )
    return float(wrong / values.size)


def predictive_values(scores: Array, truth: Array, *, threshold: Cut = 0.5) -> dict[str, float]:
    """How often a predicted positive, and a predicted negative, is true.

    Per label `PPV = TP / (TP + FP)` and `NPV = TN / (TN + FN)`; `ppv` and `npv` are the means over
    the labels that have any such prediction (the paper is silent about the others), `ppv_pooled`
    and `npv_pooled` divide the sums over all labels.

    Args:
        scores: `[N, L]`.
        truth: `[N, L]`, 1 for a positive, 0 or -1 for a negative.
        threshold: The τ of the paper: a label is predicted if its score is above it.

    Returns:
        The keys `ppv, npv, ppv_pooled, npv_pooled`; NaN where there is no such prediction at all.

    Raises:
        ValueError: The inputs are not as said.

    >>> scores, truth = np.array([[0.9, 0.6], [0.2, 0.7]]), np.array([[1, 0], [1, 1]])
    >>> {key: round(value, 3) for key, value in predictive_values(scores, truth).items()}
    {'ppv': 0.75, 'npv': 0.0, 'ppv_pooled': 0.667, 'npv_pooled': 0.0}
    """
    values, labels = validate(scores, truth)
    counts = np.zeros((2, 2, values.shape[1]), dtype=np.int64)
    for part, positive in row_blocks(values, labels):
        predicted = predict(part, threshold=threshold)
        for row, (said, right) in enumerate(((predicted, positive), (~predicted, ~positive))):
            counts[row, 0] += np.count_nonzero(said, axis=0)
            counts[row, 1] += np.count_nonzero(said & right, axis=0)
    result = {}
    pooled = {}
    for key, (made, hits) in zip(("ppv", "npv"), counts, strict=True):
        result[key] = mean_over_classes(hits / np.maximum(made, 1), made > 0, "skip")
        pooled[f"{key}_pooled"] = ratio(hits.sum(), made.sum())
    return result | pooled


def predict(scores: Floats, *, threshold: Cut = 0.5, top_k: int | None = None) -> Bools:
    """Yes-or-no predictions from scores.

    Args:
        scores: `[N, L]`.
        threshold: A label is predicted if its score is above it, one for all or `[L]`; not used
            with `top_k`.
        top_k: Predict exactly this many labels per item instead, those of highest score (of tied
            ones those of lower index); all labels if there are not more.

    Returns:
        `[N, L]`, true where the label is predicted.

    Raises:
        ValueError: `top_k` is below 1.

    >>> predict(np.array([[0.9, 0.2, 0.6]]))
    array([[ True, False,  True]])
    >>> predict(np.array([[0.5, 0.5, 0.5]]), top_k=2)
    array([[ True,  True, False]])
    """
    if top_k is None:
        above: Bools = scores > threshold
        return above
    if top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}.")
    labels = scores.shape[1]
    if top_k >= labels:
        return np.ones(scores.shape, dtype=np.bool_)
    # The k-th best score splits a row: all above it are in, of those equal to it the first ones.
    edge = np.partition(scores, labels - top_k, axis=1)[:, labels - top_k, None]
    inside: Bools = scores > edge
    tied = scores == edge
    room = top_k - np.count_nonzero(inside, axis=1)[:, None]
    inside |= tied & (np.cumsum(tied, axis=1) <= room)
    return inside
