from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.data.observation import observe_table
from plusone.errors import InputError
from plusone.features.extraction import with_features
from plusone.metrics import mean_average_precision
from plusone.recipe import make_recipe
from plusone.training.crossfit import cross_fit, only_heads


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
    found = cross_fit(dataset, RECIPE, 2, on_epoch=epochs.append)
    assert found.rows.tolist() == list(range(300))
    assert np.bincount(found.fold).tolist() == [150, 150]
    assert epochs == [fold for fold in range(2) for _ in range(30)]
    assert dataset.table.truth is not None
    truth = dataset.table.truth.dense(found.rows) == 1
    assert mean_average_precision(found.scores.table(), truth) > 0.8


def test_the_truth_is_not_looked_at() -> None:
    dataset = data()
    blind = replace(dataset, table=replace(dataset.table, truth=None))
    with_truth, without = cross_fit(dataset, RECIPE, 2), cross_fit(blind, RECIPE, 2)
    np.testing.assert_array_equal(with_truth.scores.table(), without.scores.table())


def test_folds_must_make_sense() -> None:
    for folds in (1, 301):
        with pytest.raises(InputError, match="folds"):
            cross_fit(data(), RECIPE, folds)


def pictures() -> Dataset:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(60, 3, 16, 16), dtype=np.uint8)
    return Dataset.from_arrays(images, np.eye(3, dtype=int)[rng.integers(3, size=60)])


HEADS = make_recipe({"method": "an", "mode": "linear", "epochs": 2})


def test_a_fixed_backbone_runs_over_the_images_once() -> None:
    dataset, recipe = pictures(), HEADS
    assert only_heads(dataset, recipe)
    assert not only_heads(dataset, make_recipe({"method": "an", "mode": "finetune"}))
    features = with_features(dataset, recipe)
    assert features.features is not None
    assert features.features.ndim == 2
    assert not only_heads(features, recipe)
    one, other = cross_fit(dataset, recipe, 2), cross_fit(features, recipe, 2)
    np.testing.assert_array_equal(one.scores.table(), other.scores.table())
    np.testing.assert_array_equal(one.features, features.features)


def test_features_of_images_are_kept_beside_the_folds(tmp_path: Path) -> None:
    dataset, ticks = pictures(), []
    first = cross_fit(dataset, HEADS, 2, keep=tmp_path, on_extract=ticks.append)
    assert sum(ticks) == 60
    for path in tmp_path.glob("*-of-2-1.npy"):
        path.unlink()
    again = cross_fit(dataset, HEADS, 2, keep=tmp_path, on_extract=ticks.append)
    assert sum(ticks) == 60  # the backbone did not run again
    np.testing.assert_array_equal(first.scores.table(), again.scores.table())


def test_fine_tuned_models_have_no_features_in_common() -> None:
    recipe = make_recipe({"method": "an", "mode": "finetune", "epochs": 1})
    assert cross_fit(pictures(), recipe, 2).features is None


def test_a_single_changed_value_is_other_data_and_files_of_others_stay(tmp_path: Path) -> None:
    dataset, quick = data(), make_recipe({"method": "an", "epochs": 1})
    (tmp_path / "mine.npy").touch()
    cross_fit(dataset, quick, 2, keep=tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    assert dataset.features is not None
    changed = dataset.features.copy()
    changed[17, 3] += 1
    cross_fit(replace(dataset, features=changed), quick, 2, keep=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} & before == {"mine.npy"}
