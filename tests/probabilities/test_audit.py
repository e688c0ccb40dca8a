"""k and priors from a few items with all labels."""

import numpy as np
import pytest

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities import from_audit


def truth(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return LabelMatrix.from_dense(rng.random((n, 5)) < [0.5, 0.3, 0.1, 0.05, 0.4], default=-1)


def test_the_interval_holds_k_about_as_often_as_it_says():
    whole, rng = truth(), np.random.default_rng(1)
    k, priors = whole.per_item(1).mean(), whole.per_class(1) / len(whole)
    inside, classes = [], []
    for _ in range(60):
        found = from_audit(whole.take(rng.permutation(len(whole))[:60]))
        inside.append(found.low <= k <= found.high)
        classes.append((found.prior_low <= priors) & (priors <= found.prior_high))
    assert 0.88 <= np.mean(inside) <= 1
    assert 0.9 <= np.mean(classes) <= 1


def test_with_copies_the_intervals_hold_if_groups_are_given():
    """Whole recordings of four alike clips are audited; the clips say little more than one."""
    whole, rng, held = truth(500), np.random.default_rng(1), {True: [], False: []}
    k, priors = whole.per_item(1).mean(), whole.per_class(1) / len(whole)
    for _ in range(60):
        groups = np.repeat(rng.permutation(500)[:20], 4)
        for grouped, inside in held.items():
            found = from_audit(whole.take(groups), groups=groups if grouped else None)
            own = (found.prior_low <= priors) & (priors <= found.prior_high)
            inside.append([found.low <= k <= found.high, *own])
    with_groups, without = (np.mean(inside, axis=0) for inside in held.values())
    assert with_groups[0] > 0.85
    assert with_groups[1:].mean() >= 0.93
    assert without[0] < 0.75
    assert without[1:].mean() < 0.8


def test_counts_and_shrinking():
    few = LabelMatrix.from_dense([[1, 0], [1, 1]], default=-1)
    found = from_audit(few)
    assert (found.items, found.k) == (2, 1.5)
    assert found.priors.tolist() == [1.0, 0.5]
    drawn = from_audit(few, towards=[0.5, 0.25], weight=2)
    assert drawn.priors.tolist() == [1.0, 0.5]  # scaled to k = 1.5: (1, 0.5)
    drawn = from_audit(few, towards=[0.5, 0.5], weight=2)
    assert drawn.priors.tolist() == [0.875, 0.625]
    assert drawn.k == found.k
    assert set(found.to_dict()) >= {"k", "low", "high", "priors", "prior_low", "prior_high"}


def test_intervals_keep_a_width_where_a_class_was_found_on_no_item_or_all():
    audit = from_audit(LabelMatrix.from_dense([[0, 1]] * 10, default=-1))
    np.testing.assert_allclose(audit.prior_low, [0.0, 0.722467], atol=1e-6)
    np.testing.assert_allclose(audit.prior_high, [0.277533, 1.0], atol=1e-6)


def test_unknown_labels_are_refused():
    with pytest.raises(InputError, match="1 labels of its 1 items are not"):
        from_audit(LabelMatrix.from_dense([[1, 0]]))
    with pytest.raises(InputError, match="all labels known"):
        from_audit(LabelMatrix.from_dense(np.zeros((0, 2)), default=-1))
