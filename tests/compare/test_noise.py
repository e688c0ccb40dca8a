"""Noise and tests, against loops and known values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from plusone.compare.noise import (
    Noise,
    is_near,
    p_over_classes,
    p_over_seeds,
    pooled_noise,
)


def test_noise_is_the_residual_variance_of_the_two_way_table():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(4, 3)) + 10 * rng.normal(size=(4, 1)) + 5 * rng.normal(size=(1, 3))
    noise = pooled_noise({str(m): dict(enumerate(row)) for m, row in enumerate(y)})
    residual = y - y.mean(1, keepdims=True) - y.mean(0, keepdims=True) + y.mean()
    variance = (residual**2).sum() / 6
    assert noise is not None
    assert (noise.methods, noise.seeds, noise.freedom) == (4, 3, 6)
    assert noise.residual_sd == pytest.approx(math.sqrt(variance))
    assert noise.lsd == pytest.approx(2.446912 * math.sqrt(2 * variance / 3))  # t(0.975; 6)


def test_two_methods_are_the_paired_t_test():
    ours, other = {0: 0.50, 1: 0.56, 2: 0.55}, {0: 0.48, 1: 0.51, 2: 0.52}
    noise = pooled_noise({"a": ours, "b": other})
    gaps = np.array([ours[seed] - other[seed] for seed in range(3)])
    assert noise is not None
    quantile = stats.t.ppf(0.975, 2)
    assert noise.lsd == pytest.approx(quantile * gaps.std(ddof=1) / math.sqrt(3))
    expected = stats.ttest_rel(list(ours.values()), list(other.values())).pvalue
    assert p_over_seeds(ours, other) == pytest.approx(expected)
    assert (gaps.mean() > noise.lsd) == (expected < 0.05)


def test_noise_needs_two_methods_and_two_common_seeds():
    assert pooled_noise({}) is None
    assert pooled_noise({"a": {0: 1.0, 1: 2.0}}) is None
    assert pooled_noise({"a": {0: 1.0, 1: 2.0}, "b": {1: 1.0, 2: 3.0}}) is None
    assert pooled_noise({"a": {0: 1.0}, "b": {0: 2.0}}) is None


def test_seeds_that_behave_alike_are_no_noise():
    noise = pooled_noise({"a": {0: 0.5, 1: 0.6}, "b": {0: 0.4, 1: 0.5}})
    assert noise is not None
    assert noise.lsd == pytest.approx(0, abs=1e-12)


def test_methods_without_a_seed_are_no_noise():
    trained, solved = {"a": {0: 0.5, 1: 0.62}, "b": {0: 0.4, 1: 0.5}}, {0: 0.7, 1: 0.7}
    assert pooled_noise(trained | {"c": solved}) == pooled_noise(trained)
    assert p_over_seeds(solved, {0: 0.6, 1: 0.6}) is None
    assert p_over_seeds(solved, {0: 0.6, 1: 0.65}) is not None


def test_identical_runs_and_constant_gaps():
    assert p_over_seeds({0: 0.5, 1: 0.6}, {0: 0.5, 1: 0.6}) == 1.0
    assert p_over_seeds({0: 0.5, 1: 0.7}, {0: 0.4, 1: 0.6}) == 0.0
    assert p_over_seeds({0: 0.5}, {0: 0.4}) is None
    assert p_over_seeds({0: 0.5, 1: 0.6}, {2: 0.5, 3: 0.4}) is None


def test_classes():
    rng = np.random.default_rng(1)
    a = rng.random(20)
    b = a - 0.02 + 0.05 * rng.random(20)
    assert p_over_classes(a, b) == pytest.approx(stats.wilcoxon(a - b).pvalue)
    with_gaps = [*a, None, 0.5, math.nan]
    assert p_over_classes(with_gaps, [*b, 0.3, None, 0.1]) == pytest.approx(p_over_classes(a, b))


def test_few_classes():
    assert p_over_classes([0.5], [0.4]) == 1.0
    assert p_over_classes([0.5, 0.2], [0.5, 0.2]) == 1.0
    assert p_over_classes([], []) is None
    assert p_over_classes([None], [0.4]) is None


def test_what_decides_when_the_noise_is_hardly_known():
    few, many = Noise(2, 2, 0.01, 1, 0.3), Noise(9, 3, 0.01, 16, 0.02)
    assert is_near(0.1, few, None)
    assert not is_near(0.1, few, 0.001)
    assert is_near(0.1, few, 0.4)
    assert not is_near(0.1, many, 0.4)
    assert is_near(0.01, many, 0.001)
    assert not is_near(0.1, None, None)
