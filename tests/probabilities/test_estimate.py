"""k and priors from single positives, where the truth is known by construction."""

from dataclasses import replace
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import torch

from plusone.closed_form import from_features, k_from_features, seen_label_scores
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities import from_single_positives, labels_per_item
from plusone.probabilities.k import NEAR_ONE

pytestmark = pytest.mark.slow

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "priors.py"


def items(n=600, n_classes=8, mean=-1.2, seed=0):
    """Probabilities, labels drawn from them (no item without), and one picked label each."""
    rng = np.random.default_rng(seed)
    z = rng.normal(mean, 2.5, size=(4 * n, n_classes))
    p = 1 / (1 + np.exp(-z))
    y = rng.random(p.shape) < p
    keep = np.flatnonzero(y.any(axis=1))[:n]
    z, y = z[keep], y[keep]
    label = np.array([rng.choice(np.flatnonzero(row)) for row in y])
    return z, y, np.eye(n_classes, dtype=np.int8)[label]


def chances(z):
    return 1 / (1 + np.exp(-z))


@pytest.mark.parametrize("mean", [-3.0, 0.5])
def test_it_finds_k_and_the_priors(mean):
    z, y, seen = items(mean=mean)
    found = from_single_positives(chances(z), LabelMatrix.from_dense(seen))
    assert found.k == pytest.approx(y.sum(1).mean(), rel=0.25)
    assert found.low <= y.sum(1).mean() <= found.high
    assert np.abs(found.priors - y.mean(0)).mean() < 0.09
    hidden = found.k - 1
    believed = hidden**2 / (hidden**2 + NEAR_ONE**2)
    assert found.priors.sum() == pytest.approx(1 + hidden * believed, rel=0.01)
    np.testing.assert_allclose(found.seen_share, seen.mean(0))
    assert found.items == len(z)


def test_near_one_label_per_item_priors_fall_back_to_the_seen_share():
    """A model that errs on a fifth of the items: its errors look like hidden labels."""
    rng, n_classes = np.random.default_rng(0), 8
    label = rng.integers(n_classes, size=600)
    y = np.eye(n_classes, dtype=bool)[label]
    y[np.arange(30), (label[:30] + 1) % n_classes] = True  # 1.05 labels per item
    z = rng.normal(-3, 1, size=y.shape) + 4 * y
    seen = LabelMatrix.from_dense(y & np.eye(n_classes, dtype=bool)[label])
    wrong = rng.random(600) < 0.2
    z[wrong] = z[wrong][:, rng.permutation(n_classes)]
    found = from_single_positives(chances(z), seen)
    assert found.low == 1.0 < y.sum(1).mean() < found.k
    share = np.bincount(label, minlength=n_classes) / 600
    error = np.abs(found.priors - y.mean(0)).mean()
    assert error < 1.2 * np.abs(share - y.mean(0)).mean()
    known = replace(labels_per_item(z, seen), source="counted")
    believed = from_single_positives(chances(z), seen, known)
    assert np.abs(believed.priors - y.mean(0)).mean() > 2 * error
    assert believed.priors.sum() == pytest.approx(believed.k, rel=0.01)


def test_k_is_never_below_what_is_seen():
    """Also where several labels of an item are seen, or all of them."""
    z, y, _ = items(300, mean=0.5)
    order = np.argsort(-1.0 * y * np.random.default_rng(0).random(y.shape), axis=1).argsort(axis=1)
    for seen in (y, y & (order < 2)):
        found = labels_per_item(chances(z), LabelMatrix.from_dense(seen.astype(np.int8)))
        assert found.low >= seen.sum(1).mean() - 1e-12
        assert found.low <= y.sum(1).mean() <= found.high
    single = labels_per_item(chances(z), LabelMatrix.from_dense(seen_once(y)))
    assert single.k == pytest.approx(found.k, rel=0.25)  # one of several is as good as picked


def seen_once(y):
    rng = np.random.default_rng(1)
    label = [rng.choice(np.flatnonzero(row)) for row in y]
    return np.eye(y.shape[1], dtype=np.int8)[label]


def test_no_model_is_right_about_the_seen_label_more_often_than_one_that_knows_all_labels():
    _, y, seen = items(600, mean=0.5)
    found = labels_per_item(y, LabelMatrix.from_dense(seen))
    assert found.k == pytest.approx(y.sum(1).mean(), rel=0.2)


def test_scores_need_not_be_calibrated():
    z, _, seen = items()
    labels = LabelMatrix.from_dense(seen)
    one = from_single_positives(chances(z), labels)
    other = from_single_positives(chances(0.4 * z - 1.5), labels)
    assert other.k == pytest.approx(one.k, rel=0.02)


def test_where_features_say_nothing_the_range_says_so():
    seen = np.eye(2, dtype=np.int8)[np.arange(25) % 2]
    found = from_features(torch.ones(25, 3), LabelMatrix.from_dense(seen))
    assert found.low == pytest.approx(1.0, abs=0.1)
    assert found.high == pytest.approx(2.0, abs=0.1)


def test_with_many_classes_errors_of_the_model_are_not_taken_for_labels(shared):
    """bibtex: k was estimated as 8, because no model tells 159 tags apart on 500 items."""
    data = np.load(shared / "data" / "mulan" / "bibtex.npz")
    rows = np.random.default_rng(0).permutation(len(data["xtr"]))[:500]
    y = data["ytr"][rows] > 0
    label = (y * np.random.default_rng(1).random(y.shape)).argmax(1)
    seen = LabelMatrix.from_dense(np.eye(y.shape[1], dtype=np.int8)[label])
    k = k_from_features(torch.from_numpy(data["xtr"][rows]).float(), seen)
    assert k.k == pytest.approx(y.sum(1).mean(), rel=0.35)
    assert k.low <= y.sum(1).mean() <= k.high


def test_an_item_without_a_seen_label_has_none_for_sure():
    z, _, seen = items(mean=-3.0)
    unseen = seen.copy()
    unseen[:50] = 0
    p = from_single_positives(chances(z), LabelMatrix.from_dense(unseen))
    assert (p.probabilities[:50] < 1).any(axis=0).all()
    assert p.probabilities[:50, 0].mean() < 0.5


def test_probabilities_are_calibrated_and_keep_what_was_seen():
    z, y, seen = items()
    states = seen.copy()
    states[0, ~y[0]] = -1
    found = from_single_positives(chances(0.4 * z), LabelMatrix.from_dense(states))
    p = found.probabilities
    assert (p[states == 1] == 1).all()
    assert (p[states == -1] == 0).all()
    open_ = states == 0
    for low, high in ((0.0, 0.2), (0.4, 0.6), (0.8, 1.0)):
        inside = open_ & (p >= low) & (p < high)
        assert y[inside].mean() == pytest.approx(p[inside].mean(), abs=0.08)


def test_one_label_each_gives_one():
    rng = np.random.default_rng(0)
    label = rng.integers(5, size=600)
    z = 4.0 * np.eye(5)[label] + rng.normal(size=(600, 5))
    labels = LabelMatrix.from_dense(np.eye(5, dtype=np.int8)[label])
    found = from_single_positives(chances(z - 2), labels)
    assert 1 <= found.k < 1.15


def test_what_must_hold_holds_for_useless_scores():
    _, _, seen = items(100)
    scores = np.random.default_rng(3).random(seen.shape)
    found = from_single_positives(scores, LabelMatrix.from_dense(seen))
    assert 1 <= found.low <= found.k <= found.high <= seen.shape[1]
    assert (found.priors >= found.seen_share - 1e-12).all()
    assert (found.priors <= 1).all()
    assert (found.prior_low <= found.priors + 1e-12).all()
    assert (found.priors <= found.prior_high + 1e-12).all()


def test_items_without_a_seen_label_are_left_out():
    z, _, seen = items(400)
    more = np.concatenate([seen, np.zeros_like(seen[:50])])
    scores = np.concatenate([chances(z), chances(z[:50])])
    with_them = from_single_positives(scores, LabelMatrix.from_dense(more))
    without = labels_per_item(chances(z), LabelMatrix.from_dense(seen))
    assert (with_them.items, with_them.k) == (400, without.k)
    assert with_them.probabilities.shape == more.shape


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.full((30, 2), 0.5), "scores have shape"),
        (np.full((30, 3), 1.5), "from 0 to 1"),
        (np.full((30, 3), np.nan), "from 0 to 1"),
    ],
)
def test_bad_scores(scores, message):
    with pytest.raises(InputError, match=message):
        from_single_positives(scores, LabelMatrix.from_dense(np.eye(3, dtype=int)[[0] * 30]))


def test_too_few_items():
    labels = LabelMatrix.from_dense(np.eye(3, dtype=int))
    with pytest.raises(InputError, match="at least 20 are needed"):
        from_single_positives(np.full((3, 3), 0.5), labels)


def test_from_features_twice_is_the_same_and_close():
    rng = np.random.default_rng(0)
    y = rng.random((500, 5)) < 0.4
    y[np.arange(500), rng.integers(5, size=500)] = True
    x = torch.from_numpy(3.0 * y + rng.normal(size=y.shape)).float()
    label = np.array([rng.choice(np.flatnonzero(row)) for row in y])
    seen = LabelMatrix.from_dense(np.eye(5, dtype=np.int8)[label])
    one, other = (from_features(x, seen) for _ in range(2))
    assert one.k == other.k
    assert one.k == pytest.approx(y.sum(1).mean(), rel=0.2)


def test_scores_are_out_of_sample():
    """Labels that have nothing to do with the features cannot be known again."""
    rng = np.random.default_rng(0)
    x, label = torch.from_numpy(rng.normal(size=(120, 200))), rng.integers(3, size=120)
    scores = seen_label_scores(x, LabelMatrix.from_dense(np.eye(3, dtype=np.int8)[label]))
    np.testing.assert_allclose(scores.sum(1), 1)
    assert (scores.argmax(1) == label).mean() < 0.5


def test_the_estimators_of_the_benchmark_on_certain_labels():
    """With labels that are certain, 1 / max q and the perplexity are exact."""
    rng = np.random.default_rng(0)
    y = rng.random((400, 6)) < 0.4
    y[np.arange(400), rng.integers(6, size=400)] = True
    label = np.array([rng.choice(np.flatnonzero(row)) for row in y])
    picks = y / y.sum(1, keepdims=True)
    benchmark = run_path(str(BENCHMARK))
    estimate = benchmark["estimate"]
    for name in benchmark["ESTIMATORS"]:
        priors, k = estimate(name, picks, label)
        assert priors.shape == (6,)
        assert 1 <= k <= 6
    for name in ("perplexity", "largest"):
        np.testing.assert_allclose(estimate(name, picks, label)[0], y.mean(0))
