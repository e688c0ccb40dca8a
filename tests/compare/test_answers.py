"""Truthful answers help, whatever the method; a small version of docs/evidence/answers.md."""

from dataclasses import replace

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task, split_and_observe
from plusone.methods import METHODS
from plusone.metrics import mean_average_precision
from plusone.recipe import make_recipe
from plusone.reviewing import apply_answers
from plusone.training.closed_fit import fit_for

SINGLE = [
    name
    for name, info in METHODS.items()
    if info.scheme == "single" and info.trains_on(["features"])
]
NOISE = 1.0  # points of mAP


def scenes(n: int = 900, trained: int = 240, dim: int = 120, n_classes: int = 10) -> Dataset:
    """Items with the sum of their classes' directions, and few of them to learn from."""
    rng = np.random.default_rng(0)
    truth = rng.random((n, n_classes)) < np.linspace(0.02, 0.1, n_classes)
    truth[np.arange(n), rng.integers(n_classes, size=n)] = True
    x = truth @ rng.normal(size=(n_classes, dim)) + 2.5 * rng.normal(size=(n, dim))
    split = np.where(np.arange(n) < trained, "train", "test")
    hints = 0.4 * truth + 0.6 * rng.random(truth.shape)
    return Dataset.from_arrays(
        x.astype("float32"), truth.astype(int), complete=True, split=split, hints=hints
    )


@pytest.fixture(scope="module")
def tables():
    """The data, its labels before any answer, and after answers about likely labels."""
    dataset = scenes()
    before = split_and_observe(dataset.table, make_recipe({"observe": "single"}))
    rows = np.setdiff1d(np.arange(len(before)), before.rows_of("test"))
    seen, x = before.labels.dense(rows), dataset.features[rows]
    likeness = (x - x.mean(0)) @ ((seen == 1).T @ x / (seen == 1).sum(0)[:, None] - x.mean(0)).T
    asked = np.argsort(np.where(seen == 0, -likeness, np.inf), axis=0)[:30]  # of each class
    row, label = rows[asked.ravel()], np.tile(np.arange(seen.shape[1]), len(asked))
    yes = before.truth.dense(row)[np.arange(len(row)), label] == 1
    assert 0.2 < yes.mean() < 0.7, yes.mean()
    return dataset, before, apply_answers(before, row, label, yes)


def gain(tables, method, **settings) -> float:
    """Test mAP with the answers minus that without, in per cent."""
    dataset, *both = tables
    info, scores = METHODS[method], []
    given = {"method": method, "observe": "given", "select_on": "observed", "probe": "off"}
    given |= {
        "epochs": 10,
        "lr": 3e-3,
        "expected_positives": 1.6,
        "options": dict(info.quick) if info.has_maps else {},
    }
    recipe = make_recipe(info.defaults, given, settings)
    for table in both:
        training = fit_for(make_task(replace(dataset, table=table), recipe), recipe)
        for _ in training.epochs():
            pass
        truth = training.task.test.truth.dense() == 1
        scores.append(mean_average_precision(training.predict(training.task.test), truth))
    return 100 * (scores[1] - scores[0])


@pytest.mark.parametrize("method", ["em", "gr", "recovery"])
def test_answers_help(method, tables):
    assert gain(tables, method) > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted({*SINGLE} - {"em", "gr", "recovery"}))
def test_answers_do_not_hurt_any_method(method, tables):
    assert gain(tables, method) > -NOISE


def test_with_their_full_weight_they_hurt_em(tables):
    """What the default prevents; if this fails, the tests above show nothing."""
    assert gain(tables, "em", seen_negatives="full") < -5
