"""Tasks: the share of the training items that is used."""

from itertools import pairwise

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.errors import InputError
from plusone.inputs.task import make_task, seen_labels
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.summary import summarise


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 6)).astype(np.float32)
    y = (x @ rng.normal(size=(6, 4)) > 0.2).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    split = np.where(np.arange(240) < 180, "train", "test")
    return Dataset.from_arrays(x, y, complete=True, split=split)


def task(data, share, **settings):
    return make_task(data, make_recipe({"method": "an", "train_share": share} | settings))


def test_smaller_shares_are_part_of_larger_ones(data):
    ids = [set(task(data, share).train.ids) for share in (0.1, 0.2, 0.5, 0.9, 1.0)]
    assert [len(found) for found in ids] == [14, 29, 72, 130, 144]
    for small, large in pairwise(ids):
        assert small < large


def test_the_same_items_every_time_and_others_with_another_seed(data):
    first, again = task(data, 0.3), task(data, 0.3, seed=7)
    np.testing.assert_array_equal(first.train.ids, again.train.ids)
    given = data.table.split.copy()  # with validation items of its own, only the share is drawn
    given[::9] = "val"
    own = Dataset(
        type(data.table).complete(
            data.table.ids, data.table.classes, data.table.truth, split=given
        ),
        data.features,
        "own",
    )
    one, other = (task(own, 0.3, split_seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(one.val.ids, other.val.ids)
    assert set(one.train.ids) != set(other.train.ids)


def test_labels_inputs_and_other_splits_stay(data):
    full, part = task(data, 1.0), task(data, 0.25)
    np.testing.assert_array_equal(part.val.ids, full.val.ids)
    np.testing.assert_array_equal(part.test.ids, full.test.ids)
    assert part.val.observed.digest() == full.val.observed.digest()
    rows = np.flatnonzero(np.isin(full.train.ids, part.train.ids))
    np.testing.assert_array_equal(full.train.ids[rows], part.train.ids)
    np.testing.assert_array_equal(full.train.observed.dense(rows), part.train.observed.dense())
    np.testing.assert_array_equal(full.train.inputs.x[rows], part.train.inputs.x)


def test_one_item_is_left_at_least(data):
    assert len(task(data, 1e-6).train) == 1


def test_labels_seen_are_one_per_item_or_all(data):
    table = data.table
    for share, items in ((1.0, 144), (0.5, 72)):
        settings = {"train_share": share}
        assert seen_labels(table, make_recipe(settings, {"method": "an"})) == items
        assert seen_labels(table, make_recipe(settings, {"method": "iu"})) == 2 * items
        assert seen_labels(table, make_recipe(settings, {"method": "bce"})) == 4 * items


def test_a_share_is_trained_and_told(data):
    recipe = make_recipe({"method": "em", "train_share": 0.5, "epochs": 2})
    training = fit_for(make_task(data, recipe), recipe)
    list(training.epochs())
    result = summarise(training, None, 0.0)
    assert result.items == {"train": 72, "val": 36, "test": 60}
    assert result.recipe["train_share"] == 0.5
    assert sum(result.labels.seen) == 72


@pytest.mark.parametrize("share", [0, -0.1, 1.1])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(InputError, match=f"train_share = {share}"):
        make_recipe({"train_share": share})
