from dataclasses import replace

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.data.observation import observe_table
from plusone.engine.crossfit import cross_fit, only_heads, pooled
from plusone.errors import InputError
from plusone.metrics import mean_average_precision
from plusone.recipe import make_recipe


def data(n: int = 320) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 6)).astype("float32")
    truth = (x[:, :4] > 0).astype(int)
    truth[np.arange(n), rng.integers(4, size=n)] = 1
    split = np.where(np.arange(n) < n - 20, "train", "test")
    full = Dataset.from_arrays(x, truth, complete=True, split=split)
    return Dataset(observe_table(full.table), full.features, "made")


RECIPE = make_recipe({"method": "an", "epochs": 30, "lr": 1e-2})


def test_every_item_is_predicted_by_models_that_did_not_see_it() -> None:
    dataset, epochs = data(), []
    found = cross_fit(dataset, RECIPE, 4, on_epoch=epochs.append)
    assert found.rows.tolist() == list(range(300))
    assert np.bincount(found.fold).tolist() == [75, 75, 75, 75]
    assert epochs == [fold for fold in range(4) for _ in range(30)]
    assert dataset.table.truth is not None
    truth = dataset.table.truth.dense(found.rows) == 1
    assert mean_average_precision(found.probabilities, truth) > 0.8


def test_the_truth_is_not_looked_at() -> None:
    dataset = data()
    blind = replace(dataset, table=replace(dataset.table, truth=None))
    with_truth, without = cross_fit(dataset, RECIPE, 2), cross_fit(blind, RECIPE, 2)
    np.testing.assert_array_equal(with_truth.probabilities, without.probabilities)


def test_folds_must_make_sense() -> None:
    for folds in (1, 301):
        with pytest.raises(InputError, match="folds"):
            cross_fit(data(), RECIPE, folds)


def test_a_fixed_backbone_runs_over_the_images_once() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(60, 3, 16, 16), dtype=np.uint8)
    labels = np.eye(3, dtype=int)[rng.integers(3, size=60)]
    dataset = Dataset.from_arrays(images, labels)
    recipe = make_recipe({"method": "an", "mode": "linear", "epochs": 2})
    assert only_heads(dataset, recipe)
    assert not only_heads(dataset, make_recipe({"method": "an", "mode": "finetune"}))
    features = pooled(dataset, recipe)
    assert features.features is not None
    assert features.features.ndim == 2
    assert not only_heads(features, recipe)
    one, other = cross_fit(dataset, recipe, 2), cross_fit(features, recipe, 2)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
