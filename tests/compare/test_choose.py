"""Choosing among candidates by seen labels."""

import json
from dataclasses import replace

import numpy as np
import pytest

from plusone.compare.choose import choose
from plusone.data.dataset import Dataset
from plusone.errors import InputError, RunError
from plusone.inputs.task import apply_observation
from plusone.metrics.seen_labels import DEFAULT
from plusone.recipe import Recipe


def make_data(n=300, complete=True):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 8)).astype(np.float32)
    y = (x @ rng.normal(size=(8, 4)) > 0.3).astype(np.int8)
    y[y.sum(1) == 0, 0] = 1
    return Dataset.from_arrays(x, y, complete=complete)


def recipes(**rest):
    return [
        Recipe(method=method, lr=lr, epochs=4, batch_size=32, **rest)
        for method in ("an", "gr")
        for lr in (1e-6, 3e-2)
    ]


def test_it_ranks_candidates_and_never_trains_the_untrained_ahead():
    counted = []
    choice = choose(make_data(), recipes(), on_epoch=counted.append)
    assert sum(counted) == 16
    assert choice.score == DEFAULT
    assert choice.items == choice.seen == 60
    scores = [each.score for each in choice.candidates]
    assert scores == sorted(scores, reverse=True)
    assert [each.recipe.lr for each in choice.candidates] == [3e-2, 3e-2, 1e-6, 1e-6]
    assert choice.best.recipe in recipes()
    assert scores[0] > 0.75
    plain = json.loads(json.dumps(choice.to_dict(), allow_nan=False))
    assert plain["candidates"][0]["method"] == choice.best.recipe.method


def test_hidden_labels_change_nothing():
    """The same seen labels, once with all labels known beside them and once with others."""
    data = make_data()
    observed = Recipe(observe="single", method="an")
    table = apply_observation(data.table, observed)
    other = np.where(table.labels.dense() == 1, 1, -table.truth.dense())
    liar = replace(table, truth=type(table.truth).from_dense(other.astype(np.int8), default=-1))
    given = recipes(observe="given")
    one = choose(replace(data, table=table), given)
    two = choose(replace(data, table=liar), given)
    none = choose(replace(data, table=replace(table, truth=None)), given)
    assert one == two == none
    hidden = choose(data, recipes())  # all labels are known, and hidden first
    assert [each.score for each in hidden.candidates] == [each.score for each in one.candidates]


def test_images_are_turned_into_features_once():
    rng = np.random.default_rng(0)
    y = (rng.random((60, 3)) < 0.5).astype(np.int8)
    y[y.sum(1) == 0, 0] = 1
    x = rng.integers(0, 40, size=(60, 1, 16, 16)) + 150 * y[:, :1, None, None].astype(int)
    seen = []
    data = Dataset.from_arrays(x.astype(np.uint8), y, complete=True)
    five = Recipe(method="an", epochs=2, flip=False, crops="five")
    tried = [five.model_copy(update={"lr": lr}) for lr in (1e-3, 1e-2)]
    choice = choose(data, tried, on_extract=seen.append)
    assert sum(seen) == 60
    assert len(choice.candidates) == 2


def test_what_fails_is_left_out_and_said():
    tried = [Recipe(method="em", lr=lr, epochs=3) for lr in (1e-2, 1e38)]
    choice = choose(make_data(), tried)
    assert [each.recipe.lr for each in choice.candidates] == [1e-2]
    assert [recipe.lr for recipe, _ in choice.failed] == [1e38]
    assert choice.to_dict()["failed"][0]["recipe"]["lr"] == 1e38
    with pytest.raises(RunError, match="no candidate could be trained; em: "):
        choose(make_data(), tried[1:])


def test_what_cannot_be_compared_is_refused():
    data = make_data()
    with pytest.raises(InputError, match="nothing to choose from"):
        choose(data, [])
    with pytest.raises(InputError, match="must have the same select_by"):
        choose(data, [Recipe(), Recipe(select_by="seen_map")])
    with pytest.raises(InputError, match="bce: is a reference"):
        choose(data, [Recipe(method="bce")])
