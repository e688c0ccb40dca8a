from functools import cache

import numpy as np
import pytest
from scipy.stats import beta

from plusone.probabilities.bound import precision_at_least


@pytest.mark.parametrize(("labels", "wrong"), [(7, 0), (20, 2), (60, 6)])
def test_of_many_labels_it_is_the_bound_of_clopper_and_pearson(labels, wrong):
    accepted = np.ones(labels, dtype=int)
    right = accepted - (np.arange(labels) < wrong)
    expected = beta.ppf(0.05, labels - wrong, wrong + 1)
    assert precision_at_least(accepted, right, 100_000) == pytest.approx(expected, abs=1e-3)


def test_labels_of_one_item_count_once():
    together, single = np.full(10, 4), np.ones(10, dtype=int)
    assert precision_at_least(together, together, 4000) == precision_at_least(single, single, 1000)


def test_items_of_unequal_size_count_as_fewer_and_never_as_more():
    """Items with 2, 1 and 1 labels count as 16 / 6 = 2.67 labels: two of them, and a wrong one."""
    accepted = np.array([2, 1, 1])
    bound = precision_at_least(accepted, accepted, 300_000)
    assert bound == pytest.approx(beta.ppf(0.05, 2, 1), abs=1e-3)
    bound = precision_at_least(accepted, np.array([2, 1, 0]), 300_000)
    assert bound == pytest.approx(beta.ppf(0.05, 1, 2), abs=1e-3)


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


@cache
def low_of(units, wrong, each, others):
    """The bound of an audit of units with `each` labels, of which those of `wrong` are wrong."""
    accepted = np.full(units, each)
    return precision_at_least(accepted, accepted * (np.arange(units) >= wrong), others)


def test_copies_count_once_where_whole_groups_are_audited():
    """400 recordings of three clips that are right or wrong together, 20 of them audited."""
    rng, by_group, by_item = np.random.default_rng(0), [], []
    for _ in range(2000):
        right = rng.random(400) < 0.9
        wrong = int((~right[:20]).sum())
        share = right[20:].mean()
        by_group.append(share >= low_of(20, wrong, 3, 3 * 380) - 1e-12)
        by_item.append(share >= low_of(60, 3 * wrong, 1, 3 * 380) - 1e-12)
    assert np.mean(by_group) >= 0.95
    assert np.mean(by_item) < 0.9  # 60 items would promise more than 20 recordings show


def test_it_holds_for_groups_where_items_are_audited_one_by_one():
    """Random clips: those of one recording count as one, which promises no more than is true."""
    rng, held = np.random.default_rng(1), []
    for _ in range(300):
        right = np.repeat(rng.random(100) < 0.9, 4)
        sample = rng.permutation(400)[:60]
        accepted = np.bincount(sample // 4, minlength=100)
        low = precision_at_least(accepted, np.bincount(sample // 4, right[sample], 100), 340)
        held.append(np.delete(right, sample).mean() >= low - 1e-12)
    assert np.mean(held) >= 0.95
