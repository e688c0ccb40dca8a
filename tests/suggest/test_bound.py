import numpy as np
import pytest
from scipy.stats import beta

from plusone.suggest.bound import precision_at_least


@pytest.mark.parametrize(("labels", "wrong"), [(7, 0), (20, 2), (60, 6)])
def test_of_many_labels_it_is_the_bound_of_clopper_and_pearson(labels, wrong):
    accepted = np.ones(labels, dtype=int)
    right = accepted - (np.arange(labels) < wrong)
    expected = beta.ppf(0.05, labels - wrong, wrong + 1)
    assert precision_at_least(accepted, right, 100_000) == pytest.approx(expected, abs=1e-3)


def test_labels_of_one_item_count_once():
    together, single = np.full(10, 4), np.ones(10, dtype=int)
    assert precision_at_least(together, together, 4000) == precision_at_least(single, single, 1000)


def test_nothing_to_bound():
    assert precision_at_least(np.zeros(5, dtype=int), np.zeros(5, dtype=int), 10) is None
    assert precision_at_least(np.ones(5, dtype=int), np.ones(5, dtype=int), 0) is None
    assert precision_at_least(np.ones(2, dtype=int), np.zeros(2, dtype=int), 10) == 0


def test_it_holds_for_the_few_other_labels_too():
    """Most items are audited, and the share of right labels among the rest is a coarse number."""
    rng, held = np.random.default_rng(0), []
    for _ in range(400):
        right = rng.random(60) < 0.9
        sample = rng.permutation(60)[:40]
        low = precision_at_least(np.ones(40, dtype=int), right[sample].astype(int), 20)
        held.append(np.delete(right, sample).mean() >= low - 1e-12)
    assert np.mean(held) >= 0.95
