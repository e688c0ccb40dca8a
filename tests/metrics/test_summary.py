"""The summary holds what the single functions say, under keys that do not move."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from plusone import metrics

KEYS = [
    "map",
    "cp",
    "cr",
    "cf1",
    "op",
    "or",
    "of1",
    "hamming",
    "cp_top3",
    "cr_top3",
    "cf1_top3",
    "op_top3",
    "or_top3",
    "of1_top3",
    "hamming_top3",
    "ppv",
    "npv",
    "ppv_pooled",
    "npv_pooled",
    "coverage",
    "ranking_loss",
    "one_error",
    "ece",
    "brier",
]


def problem():
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(30, 5, generator=generator)
    truth = torch.rand(30, 5, generator=generator) < 0.3
    truth[:, 0] = False
    return scores, truth


@pytest.mark.parametrize("empty", ["skip", "zero"])
def test_summary_agrees_with_its_parts(empty):
    scores, truth = problem()
    got = metrics.evaluate(scores, truth, threshold=0.6, empty=empty)
    assert list(got) == KEYS
    assert all(type(value) is float and math.isfinite(value) for value in got.values())
    top = metrics.precision_recall(scores, truth, top_k=3, empty=empty)
    expected = {
        "map": metrics.mean_average_precision(scores, truth, empty),
        **metrics.precision_recall(scores, truth, threshold=0.6, empty=empty),
        "hamming": metrics.hamming_loss(scores, truth, threshold=0.6),
        **{f"{key}_top3": value for key, value in top.items()},
        "hamming_top3": metrics.hamming_loss(scores, truth, top_k=3),
        **metrics.predictive_values(scores, truth, threshold=0.6),
        "coverage": metrics.coverage_error(scores, truth),
        "ranking_loss": metrics.ranking_loss(scores, truth),
        "one_error": metrics.one_error(scores, truth),
        "ece": metrics.expected_calibration_error(scores, truth),
        "brier": metrics.brier_score(scores, truth),
    }
    assert got == expected


def test_other_scales_have_no_calibration():
    scores, truth = problem()
    got = metrics.evaluate(torch.logit(scores.double()), truth, threshold=0.0)
    same = metrics.evaluate(scores.double(), truth)
    assert math.isnan(got.pop("ece"))
    assert math.isnan(got.pop("brier"))
    assert got == {key: value for key, value in same.items() if key in got}


def test_one_entry_and_top_k_in_the_keys():
    got = metrics.evaluate(np.array([[0.9]]), np.array([[1]]), top_k=2)
    assert got["map"] == got["cf1"] == got["of1_top2"] == got["coverage"] == 1.0


def test_no_positives_at_all():
    scores, truth = problem()
    got = metrics.evaluate(scores, truth & False)
    assert list(got) == KEYS
    assert math.isnan(got["map"])
    assert math.isnan(got["one_error"])


def test_all_names_exist():
    assert sorted(metrics.__all__) == metrics.__all__
    assert all(hasattr(metrics, name) for name in metrics.__all__)
