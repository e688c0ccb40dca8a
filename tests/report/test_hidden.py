from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from plusone.errors import InputError
from plusone.report.hidden import (
    densities,
    distances,
    false_negatives,
    gr_k_hat,
    hidden_positives,
    posterior,
    predictive_values,
    probes_of,
)
from plusone.report.runs import read_epochs
from plusone.results import Probe

RNG = np.random.default_rng(0)
POSITIVES, NEGATIVES = RNG.beta(4, 2, 300), RNG.beta(1, 5, 2000)


def probe(positives=POSITIVES, negatives=NEGATIVES) -> Probe:
    counts = [np.histogram(values, bins=100, range=(0, 1))[0] for values in (positives, negatives)]
    return Probe(positives=counts[0], negatives=counts[1], distance=0.5)


def test_shares_of_hidden_positives(epoch):
    few = probe(positives=np.array([0.995, 0.995, 0.005, 0.5]))
    found = hidden_positives([epoch(probe=probe()), epoch(2, probe=few)])
    assert found.epochs == (1, 2)
    assert [sum(row) for row in found.shares] == pytest.approx([1, 1])
    assert (found.shares[1][0], found.shares[1][50], found.shares[1][99]) == (0.25, 0.25, 0.5)
    assert (found.p[0], found.p[99]) == (0.005, 0.995)


def test_densities_are_densities_and_have_the_means_of_the_values():
    found = densities(probe())
    for density, values in ((found.positives, POSITIVES), (found.negatives, NEGATIVES)):
        assert np.mean(density) == pytest.approx(1)
        assert np.mean(np.multiply(density, found.p)) == pytest.approx(values.mean(), abs=0.005)
    assert found.distance == 0.5


def test_share_of_false_negatives_per_bin():
    found = false_negatives(probe())
    for place, low in enumerate(np.arange(100) / 100):
        fn = np.sum((low <= POSITIVES) & (low + 0.01 > POSITIVES))
        tn = np.sum((low <= NEGATIVES) & (low + 0.01 > NEGATIVES))
        assert found.share[place] == (None if fn + tn == 0 else pytest.approx(fn / (fn + tn)))
    assert found.overall == pytest.approx(300 / 2300)
    assert sum(found.labels) == 2300


@pytest.mark.parametrize("tau", [0.01, 0.5, 0.9, 0.93, 0.99])
def test_predictive_values_are_those_of_the_values_themselves(epoch, tau):
    found = predictive_values([epoch(probe=probe())], tau)
    tp, fp = np.sum(tau <= POSITIVES), np.sum(tau <= NEGATIVES)
    tn, fn = 2000 - fp, 300 - tp
    assert found.ppv[0] == (pytest.approx(tp / (tp + fp)) if tp + fp else None)
    assert found.npv[0] == pytest.approx(tn / (tn + fn))
    assert found.above[0] == tp + fp
    assert found.tau == tau


def test_one_class_and_means_over_classes(epoch):
    halves = [(POSITIVES[:100], NEGATIVES[:1500]), (POSITIVES[100:], NEGATIVES[1500:])]
    counts = [
        tuple(tuple(np.histogram(v, bins=100, range=(0, 1))[0].tolist()) for v in half)
        for half in halves
    ]
    full = probe().model_copy(update={"by_class": tuple(counts)})
    found = predictive_values([epoch(probe=full)], 0.5)
    by_class = [np.sum(p >= 0.5) / (np.sum(p >= 0.5) + np.sum(n >= 0.5)) for p, n in halves]
    assert found.ppv[0] == pytest.approx(np.mean(by_class))
    assert found.classes == 2
    one = densities(full, 1)
    assert np.mean(np.multiply(one.positives, one.p)) == pytest.approx(
        halves[1][0].mean(), abs=0.005
    )
    assert one.distance == pytest.approx(wasserstein_distance(*halves[1]), abs=0.01)
    with pytest.raises(InputError, match="probe=full"):
        densities(probe(), 0)


def test_nothing_above_the_threshold_has_no_value(epoch):
    low = np.array([0.2])
    found = predictive_values([epoch(probe=probe(low, low))], 0.9)
    assert (found.ppv, found.npv, found.above) == ((None,), (0.5,), (0,))


@pytest.mark.parametrize("tau", [0.905, 0.0, 1.0, -1, 7.0])
def test_thresholds_inside_a_bin_are_refused(epoch, tau):
    with pytest.raises(InputError, match=r"not a multiple of 0\.01"):
        predictive_values([epoch(probe=probe())], tau)


def test_epochs_are_numbered_through_all_stages_and_gaps_are_left_out(epoch):
    places, probes = probes_of(
        [
            epoch(1, probe=probe()),
            epoch(2),
            epoch(1, stage=1, probe=probe()),
            epoch(2, stage=1, probe=probe()),
        ]
    )
    assert places == (1, 3, 4)
    assert len(probes) == 3
    with pytest.raises(InputError, match="probe=on"):
        distances([epoch()])


def test_a_real_training_moves_hidden_positives_apart_from_negatives(an_run):
    epochs = read_epochs(an_run)
    found = distances(epochs)
    assert found.epochs == (1, 2, 3, 4)
    assert found.distance[-1] > found.distance[0] > 0
    below, above = (predictive_values(epochs, tau) for tau in (0.3, 0.5))
    assert above.ppv[-1] > below.ppv[-1] > false_negatives(probes_of(epochs)[1][-1]).overall


def test_numbers_need_no_matplotlib():
    modules = "curves, gradients, hidden, runs, surfaces, training_labels, writing"
    code = (
        f"import sys; from plusone.report import {modules}; assert 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_khat_is_constant_first_and_ends_where_the_options_say():
    first = gr_k_hat(1, 8)
    assert (first.w, first.b) == (0.0, -2.0)
    assert set(first.k_hat) == {1 / (1 + np.exp(2.0))}
    last = gr_k_hat(8, 8, {"w": 10.0, "b": -8.0}, p=[0.0, 0.8, 1.0])
    assert (last.w, last.b) == (10.0, -8.0)
    assert last.k_hat == pytest.approx([1 / (1 + np.exp(8)), 0.5, 1 / (1 + np.exp(-2))])


def test_the_released_schedule_lags():
    assert gr_k_hat(8, 8, {"variant": "released"}).w == pytest.approx(2 * 7 / 8)


def test_the_posterior_meets_bayes_rule_by_counting():
    """Of positives a share a is seen: of labels with confidence p, what share of the unseen?"""
    n, k = 1_000_000, 1.46
    for p in (0.1, 0.5, 0.9):
        positive = p * n
        unseen = positive * (1 - 1 / k)
        assert posterior([p], k)[0] == pytest.approx(unseen / (n - positive / k))


def test_bad_values_are_refused():
    with pytest.raises(InputError, match="epoch 9 is not one of the epochs 1 to 8"):
        gr_k_hat(9, 8)
    with pytest.raises(InputError, match="unknown method option 'ww'"):
        gr_k_hat(1, 8, {"ww": 1.0})
    with pytest.raises(InputError, match="at least one positive"):
        posterior([0.5], k=0.5)
