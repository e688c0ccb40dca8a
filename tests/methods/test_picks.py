"""Saliences that recovery learns: what they are worth on real data, and the test against chance."""

import numpy as np
import pytest
import torch

from plusone.closed_form.kernel import KernelMap
from plusone.closed_form.recover import recover_labels, with_test
from plusone.closed_form.ridge import Ridge
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.metrics import mean_average_precision

pytestmark = pytest.mark.slow


def picked(truth, e, seed):
    noise = np.random.default_rng(seed).gumbel(size=truth.shape)
    best = np.where(truth, np.log(e) + noise, -np.inf).argmax(1)
    return LabelMatrix.from_dense(np.eye(truth.shape[1], dtype=np.int8)[best])


def made(n=600, n_classes=6, seed=0):
    """Vectors from which labels can be told, mostly."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n, n_classes)) < 0.35
    truth[np.arange(n), rng.integers(n_classes, size=n)] = True
    x = truth + 0.4 * rng.normal(size=truth.shape)
    return KernelMap(n_classes, n).fit(torch.from_numpy(x).float()), truth


def test_random_picks_are_seldom_found_not_to_be_and_biased_ones_are():
    found = {"random": [], "biased": []}
    for seed in range(8):
        vectors, truth = made(seed=seed)
        ridge = Ridge(vectors)
        for name, e in (("random", np.ones(6)), ("biased", np.array([6.0, 3, 1, 1, 1, 0.3]))):
            seen = picked(truth, e, seed)
            salience = with_test(recover_labels(ridge, seen)).estimate.salience
            found[name].append(salience.found)
            if name == "biased":
                assert np.argmax(salience.values) == 0
                assert np.argmin(salience.values) == 5
    assert sum(found["random"]) <= 1
    assert sum(found["biased"]) >= 6


def test_voc_random_picks_cost_nothing_and_biased_ones_come_back_halfway(shared):
    data = shared / "data"
    dataset = load_source(str(data / "VOCdevkit"), features=[data / "voc2012_features"])
    every = dataset.table.truth.dense() == 1
    rows = np.random.default_rng(0).permutation(np.flatnonzero(every.any(1)))
    train, test = rows[:1200], rows[1200:3000]
    x = torch.from_numpy(np.asarray(dataset.features[rows[:3000]], dtype=np.float32))
    space = KernelMap(x.shape[1], 800)
    ridge, vectors = Ridge(space.fit(x[:1200])), space(x[1200:])
    share, truth = every[train].mean(0), torch.from_numpy(every[test].astype(np.int8))

    def score(solution):
        return 100 * mean_average_precision(vectors @ solution.weight.T + solution.bias, truth)

    for e in (np.ones(20), share**2 / (share**2).mean()):
        seen = picked(every[train], e, 1)
        uniform = score(recover_labels(ridge, seen, picks="uniform"))
        learned = score(recover_labels(ridge, seen))
        if (e == 1).all():
            assert learned > uniform - 0.2
        else:
            true = score(recover_labels(ridge, seen, salience=e.tolist()))
            assert learned > (uniform + true) / 2
            assert learned > uniform + 0.5
