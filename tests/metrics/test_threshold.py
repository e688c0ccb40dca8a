"""Threshold and top-k metrics against loops that count one entry at a time, and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from plusone.metrics import hamming_loss, precision_recall, predictive_values
from plusone.metrics.threshold import predict


def problem(seed, items=40, labels=7, share=0.3):
    rng = np.random.default_rng(seed)
    return rng.random((items, labels)).round(1), rng.random((items, labels)) < share


def count(predicted, truth):
    """Per label [tp, fp, fn, tn], one entry at a time."""
    table = [[0, 0, 0, 0] for _ in range(truth.shape[1])]
    for row_p, row_t in zip(predicted, truth, strict=True):
        for label, (p, t) in enumerate(zip(row_p, row_t, strict=True)):
            table[label][0 if p and t else 1 if p else 2 if t else 3] += 1
    return table


def naive_top_k(scores, k):
    chosen = np.zeros(scores.shape, dtype=bool)
    for row, values in enumerate(scores):
        for label in sorted(range(len(values)), key=lambda i: (-values[i], i))[:k]:
            chosen[row, label] = True
    return chosen


def naive_precision_recall(predicted, truth, empty):
    table = count(predicted, truth)
    kept = [c for c in table if empty == "zero" or c[0] + c[2]]
    cp = [tp / (tp + fp) if tp + fp and tp + fn else 0.0 for tp, fp, fn, _ in kept]
    cr = [tp / (tp + fn) if tp + fn else 0.0 for tp, fp, fn, _ in kept]
    tp, fp, fn, _ = (sum(column) for column in zip(*table, strict=True))
    cp, cr = sum(cp) / len(kept), sum(cr) / len(kept)
    op, overall = tp / (tp + fp) if tp + fp else 0.0, tp / (tp + fn)
    return {
        "cp": cp,
        "cr": cr,
        "cf1": 2 * cp * cr / (cp + cr) if cp + cr else 0.0,
        "op": op,
        "or": overall,
        "of1": 2 * op * overall / (op + overall) if op + overall else 0.0,
    }


@pytest.mark.parametrize("empty", ["skip", "zero"])
@pytest.mark.parametrize("setting", [{}, {"threshold": 0.9}, {"top_k": 1}, {"top_k": 3}])
def test_precision_recall_equals_a_loop(setting, empty):
    scores, truth = problem(0)
    truth[:, 2] = False  # a class without a positive
    scores[:, 4] = 0.0  # a class that is never predicted
    top_k = setting.get("top_k")
    predicted = naive_top_k(scores, top_k) if top_k else scores > setting.get("threshold", 0.5)
    got = precision_recall(torch.from_numpy(scores), truth, empty=empty, **setting)
    assert got == pytest.approx(naive_precision_recall(predicted, truth, empty))
    assert hamming_loss(scores, truth, **setting) == pytest.approx(
        sum(fp + fn for _, fp, fn, _ in count(predicted, truth)) / truth.size
    )


def test_precision_recall_equals_scikit_learn():
    scores, truth = problem(1)
    predicted = scores > 0.4
    got = precision_recall(scores, truth, threshold=0.4)
    for average, keys in (("macro", ("cp", "cr")), ("micro", ("op", "or", "of1"))):
        expected = oracle.precision_recall_fscore_support(truth, predicted, average=average)
        for key, value in zip(keys, expected[:3], strict=False):
            assert got[key] == pytest.approx(value)
    assert hamming_loss(scores, truth, threshold=0.4) == pytest.approx(
        oracle.hamming_loss(truth, predicted)
    )


@given(
    seed=st.integers(0, 2**31),
    items=st.integers(1, 8),
    labels=st.integers(1, 9),
    k=st.integers(1, 10),
)
@settings(max_examples=60)
def test_top_k_takes_exactly_k_and_the_first_of_ties(seed, items, labels, k):
    scores = np.random.default_rng(seed).choice([-np.inf, 0.1, 0.2, np.inf], (items, labels))
    chosen = predict(scores, top_k=k)
    np.testing.assert_array_equal(chosen, naive_top_k(scores, k))
    assert (chosen.sum(axis=1) == min(k, labels)).all()


def test_the_threshold_itself_is_negative():
    assert predict(np.array([[0.5, 0.6]])).tolist() == [[False, True]]
    assert predict(np.array([[0.1]], dtype=np.float32), threshold=0.1).tolist() == [[False]]


@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.9])
def test_predictive_values_equal_a_loop(threshold):
    scores, truth = problem(2)
    scores[:, 1] = 0.0  # never predicted: no PPV
    scores[:, 3] = 1.0  # always predicted: no NPV
    table = count(scores > threshold, truth)
    ppv = [tp / (tp + fp) for tp, fp, _, _ in table if tp + fp]
    npv = [tn / (tn + fn) for _, _, fn, tn in table if tn + fn]
    tp, fp, fn, tn = (sum(column) for column in zip(*table, strict=True))
    assert predictive_values(scores, truth, threshold=threshold) == pytest.approx(
        {
            "ppv": sum(ppv) / len(ppv),
            "npv": sum(npv) / len(npv),
            "ppv_pooled": tp / (tp + fp),
            "npv_pooled": tn / (tn + fn),
        }
    )


def test_nothing_predicted_and_nothing_to_find():
    truth = torch.tensor([[1, 0]])
    nothing = precision_recall(torch.zeros(1, 2), truth)
    assert nothing == {"cp": 0, "cr": 0, "cf1": 0, "op": 0, "or": 0, "of1": 0}
    values = predictive_values(torch.zeros(1, 2), truth)
    assert values == pytest.approx(
        {"ppv": np.nan, "npv": 0.5, "ppv_pooled": np.nan, "npv_pooled": 0.5}, nan_ok=True
    )
    absent = precision_recall(torch.ones(1, 2), truth * 0)
    assert absent["op"] == 0
    assert all(np.isnan(absent[key]) for key in ("cp", "cr", "cf1", "or", "of1"))


def test_bad_settings_are_named():
    scores, truth = problem(0)
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        hamming_loss(scores, truth, top_k=0)
    with pytest.raises(ValueError, match="empty must be"):
        precision_recall(scores, truth, empty="none")
