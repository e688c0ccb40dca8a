"""Calibration of probabilities, over all entries pooled."""

from __future__ import annotations

import numpy as np

from plusone.metrics._inputs import Array, Bools, Floats, Unknown, ratio, row_blocks, validate


def expected_calibration_error(
    probabilities: Array, truth: Array, *, bins: int = 15, unknown: Unknown = "auto"
) -> float:
    """The mean gap between probability and frequency, over bins of equal width.

    `ECE = Σ_b n_b / n |mean of p in b - share of positives in b|`, with bin b holding
    `b / bins < p <= (b + 1) / bins`, and 0 in the first.

    Args:
        probabilities: `[N, L]`, each in `[0, 1]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        bins: Number of bins.
        unknown: What a 0 means. Masked, unknown labels are left out.

    Returns:
        The error, in `[0, 1]`, 0 is best.

    >>> expected_calibration_error(np.array([[0.75], [0.75]]), np.array([[1], [0]]))
    0.25
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}.")
    values, labels, mask = _validate_probabilities(probabilities, truth, unknown)
    gap = np.zeros(bins)
    for part, positive, known in row_blocks(values, labels, mask):
        p = part.astype(np.float64)
        place = np.clip(np.ceil(p * bins).astype(np.int64) - 1, 0, bins - 1).ravel()
        gap += np.bincount(place, weights=((p - positive) * known).ravel(), minlength=bins)
    return ratio(np.abs(gap).sum(), _size(values, mask))


def brier_score(probabilities: Array, truth: Array, unknown: Unknown = "auto") -> float:
    """The mean of `(p - y)²` over all known entries, with y 1 for a positive and 0 for a negative.

    Args:
        probabilities: `[N, L]`, each in `[0, 1]`.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, 0 as `unknown` says.
        unknown: What a 0 means. Masked, unknown labels are left out.

    Returns:
        The score, in `[0, 1]`, 0 is best.

    >>> brier_score(np.array([[0.75], [0.75]]), np.array([[1], [0]]))
    0.3125
    """
    values, labels, mask = _validate_probabilities(probabilities, truth, unknown)
    total = sum(
        float((np.square(p.astype(np.float64) - positive) * known).sum())
        for p, positive, known in row_blocks(values, labels, mask)
    )
    return ratio(total, _size(values, mask))


def mean_and_rate(
    probabilities: Array, truth: Array, unknown: Unknown = "auto"
) -> dict[str, float]:
    """The mean probability and the share of positives, which are equal if it is calibrated.

    Both are over the labels that are known, see `Unknown`.

    >>> mean_and_rate(np.array([[0.75], [0.75]]), np.array([[1], [0]]))
    {'mean_probability': 0.75, 'true_rate': 0.5}
    """
    values, labels, mask = _validate_probabilities(probabilities, truth, unknown)
    size = _size(values, mask)
    total = float(values.sum(dtype=np.float64, where=True if mask is None else mask))
    rate = ratio(np.count_nonzero(labels), size)
    return {"mean_probability": ratio(total, size), "true_rate": rate}


def _size(values: Floats, known: Bools | None) -> int:
    """How many entries count."""
    return values.size if known is None else int(np.count_nonzero(known))


def _validate_probabilities(
    probabilities: Array, truth: Array, unknown: Unknown
) -> tuple[Floats, Bools, Bools | None]:
    """Checks both; returns floats, positives and what is known, `[N, L]`."""
    p, positive, known = validate(probabilities, truth, unknown)
    for value in (p.min(), p.max()):
        if not 0 <= value <= 1:
            raise ValueError(f"probabilities must be between 0 and 1, got {value}.")
    return p, positive, known
