"""k and priors from single positives, where the truth is known by construction."""

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import torch

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.priors import from_features, from_single_positives
from plusone.priors.features import cross_fitted_picks, standardised

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


@pytest.mark.parametrize("mean", [pytest.param(-3.0, marks=pytest.mark.slow), 0.5])
def test_it_finds_k_and_the_priors(mean):
    z, y, seen = items(mean=mean)
    found = from_single_positives(chances(z), LabelMatrix.from_dense(seen))
    assert found.k == pytest.approx(y.sum(1).mean(), rel=0.15)
    assert found.low <= found.k <= found.high
    assert np.abs(found.priors - y.mean(0)).mean() < 0.05
    assert found.k == pytest.approx(found.priors.sum())
    np.testing.assert_allclose(found.seen_share, seen.mean(0))
    assert found.items == len(z)


def test_the_estimate_stays_what_it_was():
    """Values of the first version; the fit is not run to convergence, hence the tolerance."""
    z, _, seen = items()
    found = from_single_positives(chances(z), LabelMatrix.from_dense(seen))
    assert [found.k, found.low, found.high] == pytest.approx([2.75698, 2.34418, 3.04814], abs=2e-3)
    np.testing.assert_allclose(
        found.priors[:4], [0.31285, 0.35429, 0.37747, 0.36761], rtol=0, atol=2e-3
    )
    np.testing.assert_allclose(
        found.probabilities[0, :4], [0.15706, 0.14493, 1.0, 0.21956], rtol=0, atol=2e-3
    )


def test_scores_need_not_be_calibrated():
    z, _, seen = items()
    labels = LabelMatrix.from_dense(seen)
    one = from_single_positives(chances(z), labels, interval=False)
    other = from_single_positives(chances(0.4 * z - 1.5), labels, interval=False)
    assert other.k == pytest.approx(one.k, rel=0.02)


def test_where_features_say_nothing_the_range_says_so():
    seen = np.eye(2, dtype=np.int8)[np.arange(25) % 2]
    found = from_features(torch.ones(25, 3), LabelMatrix.from_dense(seen))
    assert found.low == pytest.approx(1.0, abs=0.1)
    assert found.high == pytest.approx(2.0, abs=0.1)


def test_an_item_without_a_seen_label_has_none_for_sure():
    z, _, seen = items(mean=-3.0)
    unseen = seen.copy()
    unseen[:50] = 0
    p = from_single_positives(chances(z), LabelMatrix.from_dense(unseen), interval=False)
    assert (p.probabilities[:50] < 1).any(axis=0).all()
    assert p.probabilities[:50, 0].mean() < 0.5


def test_probabilities_are_calibrated_and_keep_what_was_seen():
    z, y, seen = items()
    states = seen.copy()
    states[0, ~y[0]] = -1
    found = from_single_positives(chances(0.4 * z), LabelMatrix.from_dense(states), interval=False)
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
    assert (found.seen_given_true <= 1).all()
    assert (found.prior_low <= found.priors + 1e-12).all()
    assert (found.priors <= found.prior_high + 1e-12).all()


def test_items_with_none_or_several_seen_labels_are_left_out():
    z, _, seen = items(400)
    more = np.concatenate([seen, np.zeros_like(seen[:50]), np.ones_like(seen[:50])])
    scores = np.concatenate([chances(z), chances(z[:100])])
    with_them = from_single_positives(scores, LabelMatrix.from_dense(more), interval=False)
    without = from_single_positives(chances(z), LabelMatrix.from_dense(seen), interval=False)
    assert with_them.items == 400
    # Shares are of all items, so that the guard (prior >= seen share) may lift some.
    assert with_them.k == pytest.approx(without.k, rel=0.1)
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
    one, other = (from_features(x, seen, interval=False) for _ in range(2))
    assert one.k == other.k
    assert one.k == pytest.approx(y.sum(1).mean(), rel=0.15)


def test_picks_are_out_of_sample():
    """Labels that have nothing to do with the features cannot be known again."""
    rng = np.random.default_rng(0)
    x, label = torch.from_numpy(rng.normal(size=(120, 200))), rng.integers(3, size=120)
    fits = []
    picks = cross_fitted_picks(x, torch.from_numpy(label), 3, on_fit=lambda: fits.append(1))
    np.testing.assert_allclose(picks.sum(1), 1)
    assert (picks.argmax(1) == label).mean() < 0.5
    assert fits


def test_many_features_are_reduced():
    x = standardised(torch.randn(40, 700, generator=torch.Generator().manual_seed(0)))
    assert x.shape == (40, 512)
    assert torch.isfinite(standardised(torch.ones(5, 3))).all()


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
