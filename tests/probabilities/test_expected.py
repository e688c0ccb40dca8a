"""Trainings get their k from single positives where nobody knows it."""

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.prediction.run_folder import read_description, read_metrics
from plusone.recipe import make_recipe
from plusone.training import expected as module
from plusone.training.closed_fit import fit_for
from plusone.training.expected import expected
from plusone.training.run import train

pytestmark = pytest.mark.slow

SHORT = {"method": "epr", "epochs": 1, "lr": 0.01, "batch_size": 64}


def separable(n=600, n_classes=6, seed=0, **rest):
    """Labels that can be read off the features, about 2 per item, all of them given."""
    rng = np.random.default_rng(seed)
    y = (rng.random((n, n_classes)) < 0.33).astype(np.int8)
    y[np.arange(n), rng.integers(n_classes, size=n)] = 1
    x = (4 * y + rng.normal(size=y.shape) * 0.5).astype(np.float32)
    return Dataset.from_arrays(x, y, complete=True, **rest)


def task_of(data, **settings):
    recipe = make_recipe(SHORT, settings)
    return make_task(data, recipe), recipe


def test_where_k_comes_from():
    data = separable()
    task, recipe = task_of(data)
    true = task.train.truth.per_item(1).mean()
    assert expected(recipe, task).source == "validation"
    found = expected(*reversed(task_of(data, select_on="observed")))
    assert found.source == "estimated"
    assert found.k == pytest.approx(true, rel=0.2)
    assert expected(*reversed(task_of(data, expected_positives="estimate"))) == found
    assert expected(*reversed(task_of(data, expected_positives=1.5))).source == "given"
    assert expected(*reversed(task_of(data, expected_positives="truth"))).k == true
    assert expected(*reversed(task_of(data, method="an"))).k is None


def test_it_is_computed_once_and_never_from_the_truth(monkeypatch):
    import plusone.closed_form.estimates as features

    calls, real = [], features.k_from_features
    monkeypatch.setattr(module, "_estimates", {})
    monkeypatch.setattr(
        features, "k_from_features", lambda *a, **b: calls.append(1) or real(*a, **b)
    )
    data = separable(300)
    task, recipe = task_of(data, expected_positives="estimate")
    first = expected(recipe, task)
    blind = Dataset(table=module_table(task, data), features=data.features, name="blind")
    again, given = task_of(blind, observe="given", select_on="observed")
    assert again.train.truth is None
    assert expected(given, again) == first
    assert fit_for(task, recipe).k == first.k
    assert len(calls) == 1


def module_table(task, data):
    """The same items, with what was seen and nothing else."""
    from dataclasses import replace

    from plusone.inputs.task import split_and_observe

    return replace(split_and_observe(data.table, make_recipe(SHORT)), truth=None)


def test_runs_say_where_k_came_from(tmp_path):
    task, recipe = task_of(separable(200), select_on="observed")
    result = train(task, recipe, tmp_path / "run")
    assert result.k_from == "estimated"
    assert read_description(tmp_path / "run").k_from == "estimated"
    assert read_metrics(tmp_path / "run").k == pytest.approx(result.k)
    assert train(task, recipe, tmp_path / "run", resume=True).k == result.k


def test_images_use_the_features_of_the_backbone():
    rng = np.random.default_rng(0)
    y = np.eye(3, dtype=np.int8)[rng.integers(3, size=60)]
    x = rng.integers(0, 40, size=(60, 1, 16, 16)) + 60 * y.argmax(1)[:, None, None, None]
    data = Dataset.from_arrays(x.astype(np.uint8), y)
    found = expected(*reversed(task_of(data)))
    assert found.source == "estimated"
    assert 1 <= found.k <= 3


def test_tokens_are_averaged():
    data = separable(300)
    tokens = np.repeat(data.features[:, None], 4, axis=1)
    same = Dataset(data.table, tokens, "tokens")
    found = expected(*reversed(task_of(same, expected_positives="estimate")))
    assert found.k == pytest.approx(
        expected(*reversed(task_of(data, expected_positives="estimate"))).k, rel=1e-3
    )


def test_too_few_items_ask_for_a_number():
    data = separable(20)
    task, recipe = task_of(data, select_on="observed")
    with pytest.raises(InputError, match=r"needs the expected number of positives.*=1\.5"):
        expected(recipe, task)
