"""Weights of items change what is learned, for every method in the same way."""

import numpy as np
import pytest

from plusone import PlusOneClassifier
from plusone.data.table import LabelTable
from plusone.estimator import plusone_classifier


def quick(method="an", **rest):
    # One epoch of many steps: which epoch is kept has no part in the result.
    return PlusOneClassifier(method, epochs=1, lr=0.05, batch_size=2, random_state=0, **rest)


def test_equal_weights_are_no_weights(items):
    plain = quick().fit(items.x, items.names).predict_proba(items.x)
    equal = quick().fit(items.x, items.names, sample_weight=np.full(240, 3.0))
    assert (equal.predict_proba(items.x) == plain).all()


def test_items_of_weight_zero_are_not_there(items):
    weight = (np.arange(240) < 150).astype(float)
    y = items.names.copy()
    y[weight == 0] = "bird"  # wrong, and without effect
    left = quick().fit(items.x, y, sample_weight=weight)
    alone = quick().fit(items.x[:150], y[:150])
    assert (left.predict_proba(items.x) == alone.predict_proba(items.x)).all()


@pytest.mark.parametrize("method", ["an", "gr", "ll_r", "epr"])
def test_weights_settle_a_dispute(method):
    """The same items carry two labels; the heavier half decides."""
    chance = np.random.default_rng(0)
    x = chance.normal(size=(150, 3)).astype(np.float32)
    twice, y = np.concatenate([x, x]), np.repeat(["a", "b"], 150)
    heavy = np.repeat([9.0, 1.0], 150)
    for weight, sign in ((heavy, 1), (heavy[::-1], -1)):
        model = quick(method, expected_positives=1.0).fit(twice, y, sample_weight=weight)
        a, b = model.predict_proba(x).mean(axis=0)
        assert sign * (a - b) > 0.15


def test_a_weight_is_a_repetition_on_average(items):
    """Repeated items and weighted ones give about the same; items without weights do not."""
    times = np.where(items.seen == 0, 9, 1)
    repeated = np.repeat(np.arange(240), times)
    as_many = np.resize(np.arange(240), len(repeated))  # so that all make the same steps
    rates = [
        quick().fit(items.x[rows], items.names[rows], sample_weight=weight)
        for rows, weight in ((repeated, None), (as_many, times[as_many]), (as_many, None))
    ]
    logits = (model.decision_function(items.x)[:, 0] for model in rates)
    many, weighted, plain = (float(np.mean(1 / (1 + np.exp(-z)))) for z in logits)
    assert many > plain + 0.2
    assert abs(weighted - many) < 0.25 * abs(plain - many)


def test_bad_weights_are_refused(items):
    for weight, why in (
        (
            np.zeros(240),
            "at least one non-zero|zero for all items",
        ),  # before scikit-learn 1.7, ours
        (np.arange(240) == 3, "zero for all items but one"),
        (-np.ones(240), "[Nn]egative"),
        (np.ones(3), "sample_weight"),
        (np.full(240, np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=why):
            quick().fit(items.x, items.names, sample_weight=weight)


def test_validation_items_share_no_group_with_others_where_weights_of_zero_drop_some(monkeypatch):
    tables = []

    def spy(*args, **settings):
        tables.append(LabelTable(*args, **settings))
        return tables[-1]

    monkeypatch.setattr(plusone_classifier, "LabelTable", spy)
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    y = np.arange(60) % 3
    weights = np.where(np.arange(60) < 30, 0.0, 1.0)  # the groups 30 to 59 are left
    PlusOneClassifier(random_state=0).fit(
        x, y, sample_weight=weights, groups=np.arange(60), validation=(x[:9], y[:9])
    )
    table = tables[0]
    own, others = table.groups[table.split == "val"], table.groups[table.split == "train"]
    assert len(own) == 9
    assert not set(own) & set(others)
