"""ROLE with each of its label estimators: contract, training, resume, recovery."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import plusone
from plusone.data import Dataset
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.methods.role import Role, RoleOptions
from plusone.prediction import checkpoint
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.run import train
from plusone.types import Clock, Stage

pytestmark = pytest.mark.slow

ESTIMATORS = ("dense", "factored", "network")
CLOCK = Clock(0, 0, 1, 0, 1)


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return request.param


def feature_data(n=200):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 10)).astype(np.float32)
    return Dataset.from_arrays(x, (x[:, :5] > 0.4).astype(int), complete=True)


class Backbone(nn.Module):
    dim = 6

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 6, 4, stride=4), nn.ReLU())

    def forward(self, images):
        return self.layers(images.float() / 255)


def image_data(n=60):
    rng = np.random.default_rng(0)
    y = (rng.random((n, 3)) < 0.5).astype(int)
    x = rng.integers(0, 99, (n, 1, 16, 16)) + 99 * y[:, :1, None, None]
    return Dataset.from_arrays(x.astype(np.uint8), y, complete=True)


def make_training(data, estimator, *, images=False, **settings):
    settings = {"epochs": 3, "lr": 0.02, "expected_positives": 1.7} | settings
    options = {"estimator": estimator, "rank": 3, "hidden": 7}
    recipe = make_recipe({"method": "role", "options": options}, settings)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        backbone = Backbone() if images else None
    return fit_for(make_task(data, recipe), recipe, backbone=backbone)


def state_of(training):
    return {key: value.clone() for key, value in training.state()[0].items()}


def test_the_loss_reads_only_and_is_finite(make, estimator):
    case = make("role", options={"estimator": estimator, "rank": 3})
    before = {key: value.clone() for key, value in case.method.state_dict().items()}
    first, second = case.terms(case.batch()), case.terms(case.batch())
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert all(torch.equal(v, before[k]) for k, v in case.method.state_dict().items())
    for observed in (case.observed, 0 * case.observed, 0 * case.observed - 1):
        total = case.total(case.batch(observed=observed))
        total.backward()
        assert total.isfinite()
        for weight in (*case.model.parameters(), *case.method.parameters()):
            assert weight.grad.to_dense().isfinite().all()
    assert case.total(case.batch([3])).isfinite()


@pytest.mark.parametrize(("n", "n_classes"), [(8, 1), (1, 6), (1, 1)])
def test_one_class_and_one_item(make, estimator, n, n_classes):
    case = make("role", n, n_classes, options={"estimator": estimator})
    case.total(case.batch()).backward()
    with torch.no_grad():
        case.method.after_step(case.outputs(case.batch()), case.batch(), CLOCK)
    assert case.method.estimates().shape == (n, n_classes)


def test_estimates_start_near_one_half_and_know_the_seen_labels(make, estimator):
    case = make("role", options={"estimator": estimator})
    if estimator == "network":
        with torch.no_grad():
            case.method.after_step(case.outputs(case.batch()), case.batch(), CLOCK)
    p = case.method.estimates()
    assert not p.requires_grad
    torch.testing.assert_close(p[case.observed == 1], torch.full((8,), 0.995))
    unseen = p[case.observed == 0]
    assert unseen.min() > 0.2
    assert unseen.max() < 0.8
    assert unseen.std() > 0.01


def test_blocks_of_rows_give_the_same_estimates(make, estimator, monkeypatch):
    case = make("role", options={"estimator": estimator})
    whole = case.method.estimates()
    monkeypatch.setattr("plusone.methods.role.BLOCK", 18)  # three rows of six classes
    torch.testing.assert_close(case.method.estimates(), whole)


def test_a_network_on_too_many_labels_trains_without_estimates(monkeypatch):
    monkeypatch.setattr("plusone.methods.role.KEPT", 10)
    training = make_training(feature_data(), "network", epochs=1)
    list(training.epochs())
    assert training.method.estimates() is None


def test_the_estimate_never_moves_the_features(make):
    case = make("role", options={"estimator": "network"})
    terms = case.terms(case.batch())
    terms["estimate"].backward()
    assert all(weight.grad is None for weight in case.model.parameters())
    assert all(weight.grad is not None for weight in case.method.parameters())


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_stopped_after_any_epoch_it_ends_the_same(estimator, optimizer, tmp_path):
    settings = {"optimizer": optimizer, "weight_decay": 0.01}
    whole = make_training(feature_data(), estimator, **settings)
    for record in whole.epochs():
        checkpoint.save(tmp_path / f"{record.epoch}", *whole.state())
    for stop in (1, 2):
        torch.manual_seed(stop)
        resumed = make_training(feature_data(), estimator, **settings)
        resumed.load_state(*checkpoint.load(tmp_path / f"{stop}"))
        list(resumed.epochs())
        ends = state_of(resumed), state_of(whole)
        assert ends[0].keys() == ends[1].keys()
        assert all(torch.equal(value, ends[1][key]) for key, value in ends[0].items())


def test_linear_init_carries_the_estimates_into_fine_tuning(estimator, tmp_path):
    settings = {"images": True, "mode": "linear_init", "epochs": 2, "finetune_epochs": 2}
    whole, carried = make_training(image_data(), estimator, **settings), None
    for number, record in enumerate(whole.epochs()):
        checkpoint.save(tmp_path / f"{number}", *whole.state())
        if record.stage == 0 and record.best:
            best = whole.best.method if whole.best else whole.method.state_dict()
            carried = {key: value.clone() for key, value in best.items()}
        if record.stage == 0 and record.epoch == 2:
            now = whole.method.state_dict()
            assert all(torch.equal(value, now[key]) for key, value in carried.items())
    resumed = make_training(image_data(), estimator, **settings)
    resumed.load_state(*checkpoint.load(tmp_path / "2"))
    list(resumed.epochs())
    ends = state_of(resumed), state_of(whole)
    assert all(torch.equal(value, ends[1][key]) for key, value in ends[0].items())


def test_hidden_labels_are_recovered(estimator):
    fitted = plusone.fit(
        feature_data(400), "role", epochs=15, lr=0.01, expected_positives="truth",
        options={"estimator": estimator},
    )  # fmt: skip
    assert fitted.metrics["val_map"] > 0.85
    found = fitted.metrics["recovery_estimates"]
    assert found["hidden_map"] > 0.6  # guessing: about 0.25
    assert found["hidden_found"] > 0.4


def test_a_run_folder_can_be_read_again(estimator, tmp_path):
    recipe = make_recipe(
        {"method": "role", "epochs": 1, "expected_positives": 1.7},
        {"options": {"estimator": estimator, "hidden": 7, "rank": 3}},
    )
    task = make_task(feature_data(), recipe)
    train(task, recipe, tmp_path)
    read = load_run(tmp_path, memory=True)
    again = fit_for(task, recipe)
    list(again.epochs())
    assert torch.equal(read.method.estimates(), again.method.estimates())


def test_a_step_of_the_factored_estimator_leaves_other_rows_alone():
    training = make_training(feature_data(), "factored")
    before = training.method.estimator.items.weight.detach().clone()
    seen = []

    def note(clock):
        seen.append(training.method.estimator.items.weight.detach().clone())

    training.on_step = note
    next(training.epochs())
    moved = (seen[0] != before).any(1)
    assert moved.sum() == training.recipe.batch_size < len(before)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"estimator": "magic"}, "cannot be 'magic'; known: dense, factored, network"),
        ({"rank": 0}, "rank must be at least 1, not 0"),
        ({"hidden": -3}, "hidden must be at least 1, not -3"),
    ],
)
def test_impossible_options_are_refused(make, options, sentence):
    with pytest.raises(InputError, match=sentence):
        make("role", options=options)


def test_the_estimator_cannot_change_between_stages(make):
    method = make("role").method
    method.name = "role"
    method.begin_stage(
        Stage(inputs="features", epochs=1, lr=0.1, options={"estimator": "dense", "lam": 2.0})
    )
    assert method.options.lam == 2
    with pytest.raises(
        InputError, match="the option estimator of role cannot change from stage to stage"
    ):
        method.begin_stage(
            Stage(inputs="features", epochs=1, lr=0.1, options={"estimator": "network"})
        )


def test_sgd_moves_dense_parameters_only():
    for name in ("dense", "network"):
        list(make_training(feature_data(), name, optimizer="sgd", epochs=1).epochs())
    with pytest.raises(InputError, match="which sgd cannot do"):
        make_training(feature_data(), "factored", optimizer="sgd")


def test_role_needs_the_number_of_positives(make):
    labels = dataclasses.replace(make("role").method.labels, expected_positives=None)
    with pytest.raises(InputError, match="role needs expected_positives"):
        Role(labels, RoleOptions())
