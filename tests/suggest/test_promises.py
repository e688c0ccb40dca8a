"""Small versions of docs/evidence/promises.md: what is promised holds over draws."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import torch

from plusone.closed_form import k_from_features
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.probabilities import LabelsPerItem, labels_per_item
from plusone.probabilities.accept import accept
from plusone.probabilities.unseen_labels import calibrate

from .conftest import make

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_without_an_audit_the_target_is_met_if_k_is_right_and_less_is_accepted_if_it_is_not_known():
    shares, careful = [], 0
    for seed in range(3):
        made = make(400, seed=seed)
        observed = LabelMatrix.from_dense(made.observed)
        k, true = labels_per_item(made.scores, observed), made.truth.sum(axis=1).mean()
        assert k.cautious < true
        found = calibrate(made.scores, observed, k=LabelsPerItem.given(true))
        accepted = accept(found, 0.9)
        assert accepted.low is None  # no audit, no confidence
        shares.append(made.truth[accepted.row, accepted.label].mean())
        found = calibrate(made.scores, observed, k=k)
        careful += accept(found, 0.9).count < accepted.count
    assert np.mean(shares) > 0.87
    assert careful == 3


def test_useless_scores_promise_nothing():
    made = make(300)
    scores = np.random.default_rng(1).random(made.scores.shape)
    observed = LabelMatrix.from_dense(made.observed)
    k = labels_per_item(scores, observed)
    assert k.low == pytest.approx(1.0, abs=0.15)
    assert k.low <= made.truth.sum(axis=1).mean() <= k.high
    found = calibrate(scores, observed, k=k)
    assert accept(found, 0.9).count == 0


@pytest.mark.parametrize("noise", [0.3, 2.0, 10.0])
@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_the_range_of_k_holds_the_truth(noise, rate):
    held = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = rng.random((200, 6)) < rate
        truth[np.arange(200), rng.integers(6, size=200)] = True
        x = torch.from_numpy(truth + noise * rng.normal(size=truth.shape)).float()
        label = (truth * rng.random(truth.shape)).argmax(axis=1)
        found = k_from_features(x, LabelMatrix.from_dense(np.eye(6, dtype=np.int8)[label]))
        held.append(found.low <= truth.sum(axis=1).mean() <= found.high)
    assert np.mean(held) >= 0.9


def test_on_digits_order_calibration_and_range_are_those_of_the_evidence(monkeypatch):
    """One draw of each of two ways to pick, measured as docs/evidence/promises.md is."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    measure = run_path(str(BENCHMARKS / "promises.py"))
    data = load_source("digits-features")
    rows = np.random.default_rng(0).permutation(len(data.table))[:300]
    truth = data.table.truth.dense(rows) == 1
    rows, truth = rows[truth.any(1)], truth[truth.any(1)]
    x = torch.from_numpy(np.asarray(data.features[rows], dtype=np.float32))
    draws = [
        measure["one_draw"](measure["scored"](x, truth, measure["picked"](scheme, truth, 0)), 0)
        for scheme in ("uniform", "frequent")
    ]
    for draw in draws:
        true, k, low, high = draw["k"]
        assert low <= true <= high
        assert k == pytest.approx(true, rel=0.4)
        for audit in ("random 100", "drawn 100"):
            assert draw[audit]["ece"] < 0.06
            assert draw[audit]["mean"] == pytest.approx(1, abs=0.2)
            if draw[audit]["accepted"]:
                assert draw[audit]["right"] >= draw[audit]["low"] * draw[audit]["accepted"]
    by_scores, by_probability = (np.mean([draw[how] for draw in draws]) for how in ("raw", "ours"))
    assert by_probability > by_scores - 0.01  # the order of tools that rank by these scores alone
