"""Ranking metrics against scikit-learn, torchmetrics and examples worked by hand."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from plusone.metrics import (
    average_precision,
    coverage_error,
    mean_average_precision,
    mean_roc_auc,
    one_error,
    ranking_loss,
    roc_auc,
)

INF = float("inf")


def tied_problem(seed, items, labels, share=0.3, decimals=2, dtype=np.float64):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(items, labels)).round(decimals).astype(dtype)
    return scores, (rng.random((items, labels)) < share).astype(np.int8)


def sklearn_ap(scores, truth):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = [
            oracle.average_precision_score(t, s) for s, t in zip(scores.T, truth.T, strict=True)
        ]
    return np.where(truth.any(axis=0), values, np.nan)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("decimals", [0, 1, 2, 12])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_average_precision_equals_scikit_learn(dtype, decimals, share):
    scores, truth = tied_problem(1, 300, 12, share, decimals, dtype)
    got = average_precision(scores, truth)
    assert got.dtype == torch.float64
    assert got.shape == (12,)
    np.testing.assert_allclose(
        got.numpy(), sklearn_ap(scores.astype(np.float64), truth), rtol=0, atol=1e-12
    )


@given(
    seed=st.integers(0, 2**31),
    items=st.integers(1, 30),
    labels=st.integers(1, 20),
    share=st.floats(0, 1),
    decimals=st.integers(0, 3),
)
@settings(max_examples=30)
def test_any_shape_equals_scikit_learn(seed, items, labels, share, decimals):
    scores, truth = tied_problem(seed, items, labels, share, decimals)
    np.testing.assert_allclose(
        average_precision(scores, truth).numpy(), sklearn_ap(scores, truth), rtol=0, atol=1e-12
    )
    if labels > 1:  # scikit-learn takes one column for a binary problem and refuses
        assert coverage_error(scores, truth) == pytest.approx(
            oracle.coverage_error(truth, scores), abs=1e-12
        )
        assert ranking_loss(scores, truth) == pytest.approx(
            oracle.label_ranking_loss(truth, scores), abs=1e-12
        )


def test_ranking_loss_crosses_chunks(monkeypatch):
    scores, truth = tied_problem(3, 501, 9, decimals=1)
    monkeypatch.setattr("plusone.metrics.ranking.CHUNK_ROWS", 50)
    assert ranking_loss(scores, truth) == pytest.approx(oracle.label_ranking_loss(truth, scores))


# Run apart: importing torchmetrics beside a torchvision without its operators leaves broken
# modules behind, and declaring the two operators changes torch for the whole process.
TORCHMETRICS = """
import sys
import torch
try:
    import torchvision
except ImportError:
    pass
except RuntimeError:
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    for name in ("nms", "qnms"):
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{name}", schema)
try:
    from torchmetrics.functional.classification import multilabel_average_precision
except Exception:
    sys.exit(77)
from plusone.metrics import average_precision, mean_average_precision
generator = torch.Generator().manual_seed(0)
scores = (torch.rand(400, 12, generator=generator, dtype=torch.float64) * 100).round() / 100
truth = (torch.rand(400, 12, generator=generator) < 0.2).long()
theirs = multilabel_average_precision(scores, truth, 12, average="none", thresholds=None)
torch.testing.assert_close(average_precision(scores, truth), theirs.double(), rtol=0, atol=1e-6)
mean = multilabel_average_precision(scores, truth, 12, average="macro", thresholds=None)
assert abs(mean_average_precision(scores, truth) - float(mean)) < 1e-6
"""


@pytest.mark.slow
def test_average_precision_equals_torchmetrics():
    done = subprocess.run(
        [sys.executable, "-c", TORCHMETRICS], capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("torchmetrics cannot be imported")
    assert done.returncode == 0, done.stderr


def test_average_precision_by_hand():
    scores = torch.tensor([[0.9, 0.5], [0.8, 0.5], [0.7, 0.5], [0.6, 0.1]])
    truth = torch.tensor([[1, 0], [0, 1], [1, 0], [0, 1]])
    # First class: 1/1 and 2/3. Second: the tie of three enters at once, so 1/3, then 2/4.
    expected = torch.tensor([(1 + 2 / 3) / 2, (1 / 3 + 1 / 2) / 2], dtype=torch.float64)
    torch.testing.assert_close(average_precision(scores, truth), expected, rtol=0, atol=1e-15)


def test_all_tied_gives_the_share_of_positives():
    truth = torch.tensor([[1], [0], [0], [1], [0]])
    assert average_precision(torch.zeros(5, 1), truth).item() == 0.4


def test_neighbouring_doubles_are_not_tied():
    scores = np.array([[1.0], [np.nextafter(1.0, 2.0)]])
    truth = np.array([[0], [1]])
    assert average_precision(scores, truth).item() == 1.0
    assert average_precision(scores.astype(np.float32), truth).item() == 0.5


def test_signed_zeros_are_tied():
    scores, truth = np.array([[0.0], [-0.0]]), np.array([[0], [1]])
    assert average_precision(scores, truth).item() == 0.5


def test_infinite_scores_equal_their_ranks():
    rng = np.random.default_rng(5)
    ranks = rng.integers(0, 4, (60, 8))
    scores = np.array([-INF, -1.0, 2.0, INF])[ranks]
    truth = rng.random((60, 8)) < 0.4
    truth[0], truth[1] = True, False
    for metric in (coverage_error, ranking_loss, one_error, mean_average_precision):
        assert metric(scores, truth) == metric(ranks.astype(float), truth)
    assert average_precision(scores, truth).isfinite().all()


def test_one_item_and_one_class():
    assert average_precision(torch.tensor([[0.3]]), torch.tensor([[1]])).tolist() == [1.0]
    assert average_precision(torch.tensor([[0.3]]), torch.tensor([[0]])).isnan().all()
    assert coverage_error(torch.tensor([[0.3]]), torch.tensor([[1]])) == 1.0
    assert ranking_loss(torch.tensor([[0.3]]), torch.tensor([[1]])) == 0.0
    assert one_error(torch.tensor([[0.3]]), torch.tensor([[1]])) == 0.0


def test_classes_without_positives():
    scores, truth = tied_problem(2, 50, 4)
    truth[:, 1] = 0
    values = average_precision(scores, truth)
    assert values.isnan().tolist() == [False, True, False, False]
    kept = values[[0, 2, 3]].sum().item()
    assert mean_average_precision(scores, truth) == pytest.approx(kept / 3)
    assert mean_average_precision(scores, truth, empty="zero") == pytest.approx(kept / 4)
    assert np.isnan(mean_average_precision(scores, truth * 0))
    assert mean_average_precision(scores, truth * 0, empty="zero") == 0.0


def test_items_without_positives():
    scores = torch.tensor([[INF, 0.5], [0.9, 0.1], [0.9, 0.1]])
    truth = torch.tensor([[0, 0], [1, 0], [0, 1]])
    assert coverage_error(scores, truth) == (0 + 1 + 2) / 3
    assert ranking_loss(scores, truth) == (0 + 0 + 1) / 3
    assert one_error(scores, truth) == 1 / 2
    assert np.isnan(one_error(scores, truth * 0))


def test_one_error_breaks_ties_by_index():
    scores = torch.tensor([[0.5, 0.5]])
    assert one_error(scores, torch.tensor([[1, 0]])) == 0.0
    assert one_error(scores, torch.tensor([[0, 1]])) == 1.0


@pytest.mark.parametrize(
    "change",
    [
        lambda s, t: (torch.from_numpy(s).requires_grad_(), torch.from_numpy(t)),
        lambda s, t: (np.asfortranarray(s), t.astype(bool)),
        lambda s, t: (s, t.astype(np.float32) * 2 - 1),
        lambda s, t: (torch.from_numpy(s), torch.from_numpy(t).bool()),
        lambda s, t: (s.astype(">f8"), t.astype(np.uint8)),
        lambda s, t: (torch.from_numpy(s).t().contiguous().t(), t),
    ],
)
@pytest.mark.parametrize(
    "metric", [mean_average_precision, coverage_error, ranking_loss, one_error]
)
def test_kinds_of_input_agree(metric, change):
    scores, truth = tied_problem(4, 80, 21)
    kept = scores.copy(), truth.copy()
    expected = metric(scores, truth)
    assert metric(*change(scores, truth)) == pytest.approx(expected, abs=1e-15)
    np.testing.assert_array_equal(scores, kept[0])
    np.testing.assert_array_equal(truth, kept[1])


def test_read_only_arrays_give_no_warning():
    scores, truth = tied_problem(4, 20, 5)
    scores.setflags(write=False)
    truth.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranking_loss(scores, truth)
        average_precision(scores, truth)


def test_bfloat16_equals_its_float32():
    scores = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    truth = torch.arange(150).reshape(50, 3) % 4 == 0
    assert torch.equal(average_precision(scores, truth), average_precision(scores.float(), truth))


@pytest.mark.parametrize(
    "metric", [average_precision, mean_average_precision, coverage_error, ranking_loss, one_error]
)
@pytest.mark.parametrize(
    ("scores", "truth", "message"),
    [
        (torch.zeros(3), torch.zeros(3), r"two-dimensional.*got shape \(3,\)"),
        (torch.zeros(0, 3), torch.zeros(0, 3), r"got shape \(0, 3\)"),
        (torch.zeros(2, 3), torch.zeros(3, 2), r"shape of scores, \(2, 3\), got \(3, 2\)"),
        (torch.zeros(1, 2), torch.tensor([[0, 2]]), "got 2 at item 0, label 1"),
        (torch.zeros(1, 2), torch.tensor([[0.5, 0]]), "got 0.5 at item 0, label 0"),
        (torch.zeros(1, 1), torch.tensor([[float("nan")]]), "truth must hold .* got nan"),
        (torch.tensor([[0.0], [float("nan")]]), torch.zeros(2, 1), "NaN at item 1, label 0"),
        (np.zeros((1, 1), dtype=complex), np.zeros((1, 1)), "type complex128"),
        (np.zeros((1, 1)), np.array([["x"]]), "type <U1"),
    ],
)
def test_bad_input_is_named(metric, scores, truth, message):
    with pytest.raises(ValueError, match=message):
        metric(scores, truth)


def test_bad_empty_is_named():
    with pytest.raises(ValueError, match="got 'nan'"):
        mean_average_precision(torch.zeros(1, 1), torch.ones(1, 1), empty="nan")


@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_roc_auc_equals_scikit_learn(decimals):
    scores, truth = tied_problem(3, 300, 9, decimals=decimals)
    truth[:, 0], truth[:, 1] = 0, 1  # undefined
    expected = [oracle.roc_auc_score(truth[:, c], scores[:, c]) for c in range(2, 9)]
    got = roc_auc(scores, truth)
    assert got[:2].isnan().all()
    np.testing.assert_allclose(got[2:].numpy(), expected, rtol=0, atol=1e-12)
    assert mean_roc_auc(scores, truth) == pytest.approx(np.mean(expected))


def test_roc_auc_leaves_unknown_labels_out():
    scores, truth = tied_problem(4, 200, 3)
    known = np.random.default_rng(0).random(truth.shape) < 0.5
    states = np.where(known, np.where(truth == 1, 1, -1), 0)
    expected = [
        oracle.roc_auc_score(truth[known[:, c], c], scores[known[:, c], c]) for c in range(3)
    ]
    np.testing.assert_allclose(roc_auc(scores, states).numpy(), expected, rtol=0, atol=1e-12)
    assert np.isnan(mean_roc_auc(scores, np.ones_like(truth)))
