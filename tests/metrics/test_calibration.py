"""Calibration against loops and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import brier_score_loss

from plusone.metrics import brier_score, expected_calibration_error


def problem(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    p = rng.random((50, 4)).astype(dtype)
    return p, rng.random((50, 4)) < p**2


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_expected_calibration_error_equals_a_loop(bins):
    p, truth = problem(0)
    total = 0.0
    for b in range(bins):
        inside = [
            (x, y)
            for x, y in zip(p.ravel(), truth.ravel(), strict=True)
            if b / bins < x <= (b + 1) / bins
        ]
        if inside:
            gap = np.mean([x for x, _ in inside]) - np.mean([y for _, y in inside])
            total += len(inside) / p.size * abs(gap)
    assert expected_calibration_error(p, truth, bins=bins) == pytest.approx(total, abs=1e-12)


def test_a_bin_holds_its_upper_edge_and_the_first_one_holds_0():
    truth = np.array([[1], [0]])
    apart = expected_calibration_error(np.array([[0.5], [0.6]]), truth, bins=2)
    assert apart == pytest.approx((0.5 + 0.6) / 2)
    together = expected_calibration_error(np.array([[0.0], [0.5]]), truth, bins=2)
    assert together == pytest.approx((1.0 - 0.5) / 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_brier_score_equals_scikit_learn(dtype):
    p, truth = problem(1, dtype)
    expected = brier_score_loss(truth.ravel(), p.ravel().astype(np.float64))
    assert brier_score(torch.from_numpy(p), truth) == pytest.approx(expected, abs=1e-12)


def test_certain_and_right_is_perfect():
    truth = torch.tensor([[1, 0], [0, 1]])
    assert expected_calibration_error(truth.float(), truth) == 0.0
    assert brier_score(truth.float(), truth) == 0.0
    assert expected_calibration_error(1 - truth.float(), truth) == 1.0


@pytest.mark.parametrize("metric", [brier_score, expected_calibration_error])
@pytest.mark.parametrize("value", [-0.5, 1.5, float("inf")])
def test_other_scales_are_refused(metric, value):
    with pytest.raises(ValueError, match=f"between 0 and 1, got {value}"):
        metric(torch.tensor([[0.5, value]]), torch.tensor([[1, 0]]))


def test_bad_bins_are_named():
    with pytest.raises(ValueError, match="bins must be at least 1, got 0"):
        expected_calibration_error(torch.zeros(1, 1), torch.zeros(1, 1), bins=0)
