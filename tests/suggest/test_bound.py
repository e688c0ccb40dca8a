from functools import cache

import numpy as np
import pytest
from scipy.stats import beta

from plusone.probabilities.bound import Sample, at_most, counted, precision_at_least


def sample(accepted, right):
    """Labels of units: how many each has, and how many of them are right."""
    unit = np.repeat(np.arange(len(accepted)), accepted)
    order = np.arange(len(unit)) - np.repeat(np.cumsum(accepted) - accepted, accepted)
    return Sample.of(unit, order < np.asarray(right)[unit])


@pytest.mark.parametrize(("labels", "wrong"), [(7, 0), (20, 2), (60, 6)])
def test_of_many_labels_it_is_the_bound_of_clopper_and_pearson(labels, wrong):
    accepted = np.ones(labels, dtype=int)
    right = accepted - (np.arange(labels) < wrong)
    expected = beta.ppf(0.05, labels - wrong, wrong + 1)
    found = precision_at_least(sample(accepted, right), 100_000)
    assert found == pytest.approx(expected, abs=1e-3)


def test_labels_of_a_unit_count_once():
    together, single = np.full(10, 4), np.ones(10, dtype=int)
    as_one = precision_at_least(sample(together, together), 4000)
    assert as_one == precision_at_least(sample(single, single), 1000)
    assert sample(together, together).size == 10


def test_both_bounds_count_labels_alike_and_agree_where_many_are_left():
    """What `suggest` says of the labels an audit left, and `predict` of new ones."""
    unit = np.repeat(np.arange(30), 2)
    found = Sample.of(unit, unit > 2)  # all labels of three units are wrong
    assert found.size == counted(np.ones(60), unit) == 30
    low = precision_at_least(found, 100_000)
    assert low == pytest.approx(1 - at_most(0.1, 30), abs=1e-3)


def test_items_of_unequal_size_count_as_fewer_and_never_as_more():
    """Items with 2, 1 and 1 labels count as 16 / 6 = 2.67 labels: two of them, and a wrong one."""
    accepted = np.array([2, 1, 1])
    bound = precision_at_least(sample(accepted, accepted), 300_000)
    assert bound == pytest.approx(beta.ppf(0.05, 2, 1), abs=1e-3)
    bound = precision_at_least(sample(accepted, np.array([2, 1, 0])), 300_000)
    assert bound == pytest.approx(beta.ppf(0.05, 1, 2), abs=1e-3)


def test_weights_make_a_sample_smaller_and_move_the_share_of_wrong_ones():
    """Weights 3, 1, 1, 1 are worth 36 / 12 labels; the first counts as 1.5 of them."""
    weight, right = np.array([3.0, 1.0, 1.0, 1.0]), np.array([False, True, True, True])
    found = Sample.of(np.arange(4), right, weight)
    assert (found.size, found.wrong) == (3, 2)
    assert Sample.of(np.arange(4), ~right, weight).wrong == 2  # 1.5, rounded up


def test_nothing_to_bound():
    one = np.ones(5, dtype=int)
    assert precision_at_least(sample(0 * one, 0 * one), 10) is None
    assert precision_at_least(sample(one, one), 0) is None
    assert precision_at_least(sample(one[:2], 0 * one[:2]), 10) == 0


def test_it_holds_for_the_few_other_labels_too():
    """Most items are audited, and the share of right labels among the rest is a coarse number."""
    rng, held = np.random.default_rng(0), []
    for _ in range(400):
        right = rng.random(60) < 0.9
        rows = rng.permutation(60)[:40]
        low = precision_at_least(Sample.of(rows, right[rows]), 20)
        held.append(np.delete(right, rows).mean() >= low - 1e-12)
    assert np.mean(held) >= 0.95


@cache
def low_of(units, wrong, each, others):
    """The bound of an audit of units with `each` labels, of which those of `wrong` are wrong."""
    accepted = np.full(units, each)
    return precision_at_least(sample(accepted, accepted * (np.arange(units) >= wrong)), others)


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
        rows = rng.permutation(400)[:60]
        found = Sample.of(rows // 4, right[rows])
        low = precision_at_least(found, 340)
        held.append(np.delete(right, rows).mean() >= low - 1e-12)
    assert np.mean(held) >= 0.95
