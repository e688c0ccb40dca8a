"""Hints as a prior of suggestions."""

import numpy as np

from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe
from plusone.metrics import mean_average_precision
from plusone.probabilities.hint_prior import WEIGHTS, with_prior


def parts(noise, n=600, n_classes=5):
    """Labels, weak scores, and hints with some noise of their own."""
    rng = np.random.default_rng(0)
    truth = rng.random((n, n_classes)) < 0.3
    truth[~truth.any(axis=1), 0] = True

    def guess(spread):
        odds = 2.0 * truth + spread * rng.normal(size=truth.shape) - 1
        return (1 / (1 + np.exp(-odds))).astype(np.float32)

    seen = LabelMatrix.from_dense(observe(truth.astype(int), "single", 1200))
    return truth, seen, guess(1.5), guess(noise)


def test_good_hints_count_and_help():
    truth, seen, scores, hints = parts(noise=1.0)
    found, weight = with_prior(scores, hints, seen)
    combined = found.table()
    assert weight > 0
    before, after = (mean_average_precision(each, truth) for each in (scores, combined))
    assert after > before + 0.05
    assert combined.dtype == np.float64
    assert ((combined > 0) & (combined < 1)).all()


def test_useless_hints_count_little_or_nothing():
    truth, seen, scores, hints = parts(noise=1.0)
    shuffled = np.random.default_rng(1).permutation(hints)
    found, weight = with_prior(scores, shuffled, seen)
    assert weight <= WEIGHTS[1]
    before, after = (mean_average_precision(each, truth) for each in (scores, found.table()))
    assert abs(after - before) < 0.02


def test_without_a_hint_a_score_stays():
    _, seen, scores, hints = parts(noise=1.0)
    hints[::2] = np.nan
    hints[:, 4] = np.nan
    found, weight = with_prior(scores, hints, seen)
    combined = found.table()
    assert weight > 0
    np.testing.assert_allclose(combined[::2], scores[::2], rtol=1e-4)
    np.testing.assert_allclose(combined[:, 4], scores[:, 4], rtol=1e-4)
    assert (combined[1::2, :4] != scores[1::2, :4]).mean() > 0.9
