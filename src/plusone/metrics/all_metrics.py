"""All metrics of one set of scores in one flat table."""

from __future__ import annotations

from plusone.metrics._inputs import Array, Cut, Empty, Unknown, three_states, validate
from plusone.metrics.calibration_error import brier_score, expected_calibration_error
from plusone.metrics.ranking import (
    coverage_error,
    mean_average_precision,
    one_error,
    ranking_loss,
)
from plusone.metrics.threshold import hamming_loss, precision_recall, predictive_values


def evaluate(
    scores: Array,
    truth: Array,
    *,
    threshold: Cut = 0.5,
    top_k: int = 3,
    empty: Empty = "skip",
    ranking: Array | None = None,
    unknown: Unknown = "auto",
) -> dict[str, float]:
    """Every metric that needs scores and true labels only.

    Args:
        scores: `[N, L]`; probabilities, unless `threshold` is chosen for another scale.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        threshold: A label is predicted if its score is above it; one for all or `[L]`.
        top_k: Number of labels per item that the `_top{k}` values predict.
        empty: Classes without a positive are left out of means over classes (`"skip"`) or count as
            0 (`"zero"`, the protocol of Cole et al. 2021).
        ranking: What labels are ranked by, `[N, L]`, if not by the scores: their log-odds, where
            scores round to 1.
        unknown: What a 0 in the truth means: `"masked"` leaves unknown labels out of every metric;
            `"negative"` and `"positive"` count them as such; `"auto"`, the default, masks them if
            the truth holds a -1, and takes a table of 0 and 1 for complete.

    Returns:
        The keys `map`; `cp, cr, cf1, op, or, of1, hamming` at the threshold, and the same with
        `_top{k}` appended for the k best labels; `ppv, npv, ppv_pooled, npv_pooled`; `coverage,
        ranking_loss, one_error`; `ece, brier`, which are NaN for scores outside `[0, 1]`.
        The keys depend on `top_k` only. NaN always means that a value is undefined.

    >>> import torch
    >>> scores = torch.tensor([[0.9, 0.6, 0.1], [0.2, 0.7, 0.3]])
    >>> result = evaluate(scores, torch.tensor([[1, 0, 0], [1, 1, 0]]), top_k=2)
    >>> result["map"], result["cr"], result["op_top2"]
    (1.0, 0.75, 0.5)
    """
    values, labels, known = validate(scores, truth, unknown)
    order = values if ranking is None else validate(ranking, truth)[0]
    positive, unknown = three_states(labels, known)
    at_top = precision_recall(order, positive, top_k=top_k, empty=empty, unknown=unknown)
    at_top["hamming"] = hamming_loss(order, positive, top_k=top_k, unknown=unknown)
    calibrated = bool(values.min() >= 0 and values.max() <= 1)
    nan = float("nan")
    return {
        "map": mean_average_precision(order, positive, empty, unknown),
        **precision_recall(values, positive, threshold=threshold, empty=empty, unknown=unknown),
        "hamming": hamming_loss(values, positive, threshold=threshold, unknown=unknown),
        **{f"{key}_top{top_k}": value for key, value in at_top.items()},
        **predictive_values(values, positive, threshold=threshold, unknown=unknown),
        "coverage": coverage_error(order, positive, unknown),
        "ranking_loss": ranking_loss(order, positive, unknown),
        "one_error": one_error(order, positive, unknown),
        "ece": expected_calibration_error(values, positive, unknown=unknown) if calibrated else nan,
        "brier": brier_score(values, positive, unknown) if calibrated else nan,
    }
