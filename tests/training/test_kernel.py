"""Training in the space of a kernel: every path gives what it gives without one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.training.conftest import scores_of
from tests.training.test_linear import assert_as_alone

from plusone.closed_form.kernel import KernelHead
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training import closed_fit
from plusone.training.closed_fit import fit_for
from plusone.training.crossfit import cross_fit
from plusone.training.run import train

SETTINGS = {"head": "kernel", "epochs": 3, "batch_size": 16, "lr": 0.01, "expected_positives": 1.7}


@pytest.mark.parametrize("kernel", ["cosine", "rbf"])
@pytest.mark.parametrize("name", ["an", "role", "lac", "recovery"])
def test_a_run_predicts_as_its_training_did(name, kernel, feature_data, tmp_path):
    options = {"width": 8, "heads": 2, "feedforward": 8} if name == "lac" else {}
    recipe = make_recipe(
        SETTINGS, {"method": name, "options": options, "ema": 0.9, "kernel": kernel}
    )
    data = feature_data(120)
    task = make_task(data, recipe)
    result = train(task, recipe, tmp_path / "run")
    assert 0 < result.val_map <= 1
    loaded = load_run(tmp_path / "run")
    assert isinstance(loaded.model.head, KernelHead) == (name != "lac")
    trained = fit_for(task, recipe)
    assert len(list(trained.epochs())) == (1 if name == "recovery" else 3 + 3 * (name == "lac"))
    x = ArrayInputs(torch.from_numpy(np.asarray(data.features[90:])))
    torch.testing.assert_close(
        loaded.raw.probabilities(x), scores_of(trained, x), rtol=1e-5, atol=1e-6
    )


@pytest.mark.slow
def test_a_stack_shares_one_map(feature_data):
    given = SETTINGS | {"method": "gr"}
    recipes = [make_recipe(given, {"seed": seed, "lr": lr}) for seed in (0, 1) for lr in (0.01, 1)]
    assert_as_alone(make_task(feature_data(120), recipes[0]), recipes[:2])


def test_a_kernel_head_needs_fixed_features(image_data):
    recipe = make_recipe({"method": "an", "head": "kernel", "mode": "finetune"})
    with pytest.raises(InputError, match="--mode linear"):
        fit_for(make_task(image_data(), recipe), recipe)


def test_images_and_tokens_have_vectors_too(image_data, feature_data):
    recipe = make_recipe({"method": "recovery", "mode": "linear", "backbone": "cnn"})
    training = fit_for(make_task(image_data(), recipe), recipe)
    (record,) = training.epochs()
    assert isinstance(training.model.head, KernelHead)
    assert record.val_map > 0
    data = feature_data(120)
    tokens = np.repeat(np.asarray(data.features)[:, None], 3, 1)
    maps = []
    for features in (data.features, tokens):
        task = make_task(replace(data, features=features), recipe)
        maps += [record.val_map for record in fit_for(task, recipe).epochs()]
    assert maps[0] == pytest.approx(maps[1], abs=1e-6)


def test_a_stage_after_a_closed_form_is_evaluated_by_its_own_weights(training, image_data):
    made = training(
        image_data(), method="recovery", backbone=True, mode="linear_init", finetune_epochs=2
    )
    records = list(made.epochs())
    assert [(record.stage, record.epoch) for record in records] == [(0, 1), (1, 1), (1, 2)]
    assert {*records[0].losses} == {"left_out_error"}
    assert made.learned.parts == (made.task.train,)  # the second stage chooses by the others
    scores = made.log_odds(made.task.val)
    assert made.validator(scores).score == pytest.approx(made.best.score, abs=1e-6)
    assert made.held_out().log_odds.equal(scores)


def test_leave_one_out_stands_for_folds(feature_data):
    data, recipe = feature_data(120), make_recipe({"method": "ridge", "observe": "given"})
    made = cross_fit(data, recipe)
    assert len(made.scores) == 90
    assert sorted(made.fold) == list(range(90))
    left = 7  # against a training without this item
    rows = np.flatnonzero(np.arange(120) != left)
    rest = replace(data, table=data.table.take(rows), features=np.asarray(data.features)[rows])
    penalty = {"options": {"penalty": 1.0}}
    whole = cross_fit(data, make_recipe({"method": "ridge", "observe": "given"}, penalty))
    settings = make_recipe({"method": "ridge", "observe": "given"}, penalty)
    training = fit_for(make_task(rest, settings), settings)
    assert len(list(training.epochs())) == 1
    x = torch.from_numpy(np.asarray(data.features)[[left]])
    expected = scores_of(training, ArrayInputs(x))[0]
    # The kernel itself is fitted without the item here, so it is close and not equal.
    found = torch.from_numpy(whole.scores.table()[left])
    torch.testing.assert_close(found, expected.double(), atol=0.03, rtol=0)


@pytest.mark.parametrize(("head", "close"), [("linear", 1e-4), ("kernel", 0.1)])
def test_sample_weights_count(head, close, feature_data):
    """An item of weight 2 counts as if it were there twice; the kernel's centre ignores weights."""
    data, given = feature_data(80), {"method": "ridge", "head": head, "use_validation": False}
    task = make_task(data, make_recipe(given))
    rows = torch.cat([torch.arange(len(task.train)), torch.arange(10)])
    twice = replace(
        task.train,
        ids=np.array([f"item {number}" for number in range(len(rows))]),
        inputs=ArrayInputs(task.train.inputs.x[rows]),
        observed=task.train.observed.take(rows.numpy()),
        truth=None,
    )
    weights = np.where(np.arange(len(task.train)) < 10, 2.0, 1.0)
    scores = []
    # Weights of items with a label are 1 on average, so the penalty is relative to their mean.
    mean = weights[task.train.observed.per_item(1) > 0].mean()
    for part, penalty in ((twice, 1.0), (replace(task.train, weights=weights), 1 / mean)):
        recipe = make_recipe(given, {"gamma": 1.5, "options": {"penalty": penalty}})
        training = fit_for(replace(task, train=part), recipe)
        assert len(list(training.epochs())) == 1
        scores.append(training.predict(task.test))
    assert (scores[0] - scores[1]).abs().max() < close


@pytest.mark.parametrize("method", ["ridge", "recovery"])
def test_items_without_a_label_change_nothing(method, feature_data):
    data = feature_data(120)
    recipe = make_recipe({"method": method, "observe": "single", "use_validation": False})
    task = make_task(data, recipe)
    rows = np.flatnonzero(task.train.observed.per_item(1) > 0)
    more = np.random.default_rng(0).normal(size=(50, task.shape[-1])).astype("float32")
    unlabelled = LabelMatrix.from_dense(np.zeros((50, len(task.classes)), np.int8))
    x, observed = task.train.inputs.x[rows], task.train.observed.take(rows)
    with_more = (
        torch.cat([torch.from_numpy(more), x]),
        LabelMatrix.concatenate([unlabelled, observed]),
    )
    made = []
    for inputs, labels in ((x, observed), with_more):
        part = replace(
            task.train,
            ids=np.array([f"item {number}" for number in range(len(inputs))]),
            inputs=ArrayInputs(inputs),
            observed=labels,
            truth=None,
        )
        made.append(fit_for(replace(task, train=part), recipe))
        assert len(list(made[-1].epochs())) == 1
    alone, together = made
    torch.testing.assert_close(alone.predict(task.test), together.predict(task.test))
    torch.testing.assert_close(alone.left_out, together.left_out[50:])
    expected = together.model.head(torch.from_numpy(more)).logits
    torch.testing.assert_close(together.left_out[:50], expected, atol=1e-4, rtol=1e-4)


def test_of_very_many_labels_a_sample_is_kept_and_all_can_be_asked_for(feature_data, monkeypatch):
    recipe, data = make_recipe({"method": "recovery"}), feature_data(120)
    whole = fit_for(make_task(data, recipe), recipe)
    list(whole.epochs())
    monkeypatch.setattr(closed_fit, "CALIBRATED_LABELS", 0)
    monkeypatch.setattr("plusone.inputs.sampling.SMALLEST_SAMPLE", 30)
    some = fit_for(make_task(data, recipe), recipe)
    list(some.epochs())
    assert len(some.left_out) < len(whole.left_out)
    torch.testing.assert_close(some.all_left_out(), whole.left_out)
    held_out = some.held_out()
    assert len(held_out.log_odds) == len(held_out.labels) == len(held_out.rows) == 30
    expected = whole.method.log_odds(whole.left_out)[torch.from_numpy(held_out.rows)]
    torch.testing.assert_close(held_out.log_odds, expected)
