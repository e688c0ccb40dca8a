"""Calibration of probabilities, over all entries pooled."""

from __future__ import annotations

import numpy as np

from plusone.metrics._inputs import Array, Bools, Floats, row_blocks, validate


def expected_calibration_error(probabilities: Array, truth: Array, *, bins: int = 15) -> float:
    """The mean gap between probability and frequency, over bins of equal width.

    `ECE = Σ_b n_b / n |mean of p in b - share of positives in b|`, with bin b holding
    `b / bins < p <= (b + 1) / bins`, and 0 in the first.

    Args:
        probabilities: `[N, L]`, each in `[0, 1]`.
        truth: `[N, L]`, 1 for a positive, 0 or -1 for a negative.
        bins: Number of bins.

    Returns:
        The error, in `[0, 1]`, 0 is best.

    Raises:
        ValueError: An input has a wrong shape, type or value.

    >>> expected_calibration_error(np.array([[0.75], [0.75]]), np.array([[1], [0]]))
    0.25
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}.")
    values, labels = _validate_probabilities(probabilities, truth)
    gap = np.zeros(bins)
    for part, positive in row_blocks(values, labels):
        p = part.astype(np.float64)
        place = np.clip(np.ceil(p * bins).astype(np.int64) - 1, 0, bins - 1).ravel()
        gap += np.bincount(place, weights=(p - positive).ravel(), minlength=bins)
    return float(np.abs(gap).sum() / values.size)


def brier_score(probabilities: Array, truth: Array) -> float:
    """The mean of `(p - y)²` over all entries, with y 1 for a positive and 0 for a negative.

    Args:
        probabilities: `[N, L]`, each in `[0, 1]`.
        truth: `[N, L]`, 1 for a positive, 0 or -1 for a negative.

    Returns:
        The score, in `[0, 1]`, 0 is best.

    Raises:
        ValueError: An input has a wrong shape, type or value.

    >>> brier_score(np.array([[0.75], [0.75]]), np.array([[1], [0]]))
    0.3125
    """
    values, labels = _validate_probabilities(probabilities, truth)
    total = sum(
        float(np.square(p.astype(np.float64) - positive).sum())
        for p, positive in row_blocks(values, labels)
    )
    return total / values.size


def mean_and_rate(probabilities: Array, truth: Array) -> dict[str, float]:
    """The mean probability and the share of positives, which are equal if it is calibrated.

    >>> mean_and_rate(np.array([[0.75], [0.75]]), np.array([[1], [0]]))
    {'mean_probability': 0.75, 'true_rate': 0.5}
    """
    values, labels = _validate_probabilities(probabilities, truth)
    mean = float(values.mean(dtype=np.float64))
    return {"mean_probability": mean, "true_rate": float(labels.mean())}


def _validate_probabilities(probabilities: Array, truth: Array) -> tuple[Floats, Bools]:
    """Checks both, and returns them as floats and booleans, `[N, L]`."""
    p, positive = validate(probabilities, truth)
    for value in (p.min(), p.max()):
        if not 0 <= value <= 1:
            raise ValueError(f"probabilities must be between 0 and 1, got {value}.")
    return p, positive
