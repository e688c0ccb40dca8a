"""The short way of linear trainings ends where the general one ends."""

import dataclasses

import pytest
import torch

from plusone.errors import DivergedError
from plusone.methods import METHODS
from plusone.recipe import make_recipe
from plusone.training import trainer as training_module
from plusone.training.linear_epoch import suits
from plusone.training.task import make_task
from plusone.training.trainer import Training

SOON = {"em_apl": {"warmup": 1}, "ll_r": {"delta_rel": 5.0}, "ll_ct": {"delta_rel": 5.0}}
SOON |= {"ll_cp": {"delta_rel": 2.0}}  # so that they act within a few epochs
GENERAL = {"role", "gr_learned", "lac", "en_cl", "en_scl"}  # own parameters, head or teacher
THREE_STATES = "positives_and_negatives(1, 1)"


def recipe_of(method, **rest):
    given = {"method": method, "expected_positives": 1.7, "epochs": 3, "batch_size": 16}
    return make_recipe(given | {"lr": 0.02, "options": SOON.get(method, {})}, rest)


def both_ways(task, recipe, monkeypatch):
    """The training and its records by the short way, and by the general one."""
    ends = []
    for rule in (suits, lambda training: False):
        monkeypatch.setattr(training_module, "suits", rule)
        made = Training(task, recipe)
        assert rule(made) == (rule is suits)
        ends.append((made, list(made.epochs())))
    return ends


def assert_equal_ways(task, recipe, monkeypatch):
    (short, records), (general, expected) = both_ways(task, recipe, monkeypatch)
    for mine, theirs in zip(records, expected, strict=True):
        assert (mine.stage, mine.epoch) == (theirs.stage, theirs.epoch)
        assert mine.losses == pytest.approx(theirs.losses, rel=1e-4, abs=1e-6)
        assert mine.val_map == pytest.approx(theirs.val_map, abs=1e-6)
    for part in ("model", "method"):
        state, other = (getattr(each, part).state_dict() for each in (short, general))
        for name, value in state.items():
            torch.testing.assert_close(value, other[name], rtol=1e-4, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("observe", ["auto", THREE_STATES])
@pytest.mark.parametrize("name", sorted(METHODS.keys() - GENERAL))
def test_every_method_is_as_in_the_general_way(name, observe, feature_data, monkeypatch):
    recipe = recipe_of(name, observe=observe)
    assert_equal_ways(make_task(feature_data(120), recipe), recipe, monkeypatch)


@pytest.mark.parametrize("name", sorted(GENERAL))
def test_what_trains_more_than_a_linear_layer_goes_the_general_way(name, feature_data):
    recipe = recipe_of(name)
    assert not suits(Training(make_task(feature_data(120), recipe), recipe))


@pytest.mark.parametrize(
    ("settings", "short"),
    [
        ({}, True),
        ({"weight_decay": 0.1, "head_lr_mult": 3.0, "patience": 2}, True),
        ({"optimizer": "sgd"}, False),
        ({"optimizer": "adamw"}, False),
        ({"schedule": "one_cycle"}, False),
        ({"ema": 0.9}, False),
    ],
    ids=str,
)
def test_the_rule(settings, short, feature_data):
    recipe = recipe_of("gr", **settings)
    assert suits(Training(make_task(feature_data(120), recipe), recipe)) is short


def test_images_go_the_general_way(training, image_data):
    assert not suits(training(image_data(), backbone=True))


@pytest.mark.parametrize(
    "settings",
    [
        {"weight_decay": 0.1, "head_lr_mult": 3.0},
        {"batch_size": 7},
        {"batch_size": 1000},
        {"batch_size": 1},
        {"stages": [{"inputs": "features", "epochs": 1}, {"inputs": "features", "epochs": 2}]},
    ],
    ids=str,
)
def test_settings_mean_the_same(settings, feature_data, monkeypatch):
    recipe = recipe_of("gr", **settings)
    assert_equal_ways(make_task(feature_data(60), recipe), recipe, monkeypatch)


def test_weighted_items_and_half_precision(feature_data, monkeypatch):
    recipe = recipe_of("em", batch_size=10)
    task = make_task(feature_data(80), recipe)
    object.__setattr__(task.train.inputs, "x", task.train.inputs.x.half())
    weights = torch.arange(1.0, len(task.train) + 1, dtype=torch.float64).numpy()
    task = dataclasses.replace(task, train=dataclasses.replace(task.train, weights=weights))
    assert_equal_ways(task, recipe, monkeypatch)


@pytest.mark.parametrize("name", ["gr", "en", "epr"])
def test_repeated_and_resumed_it_is_the_same_bit_for_bit(name, feature_data):
    recipe = recipe_of(name, batch_size=10)
    task = make_task(feature_data(80), recipe)
    ends = []
    for stop in (None, None, 1):
        made = Training(task, recipe)
        losses = []
        for record in made.epochs():
            losses.append(record.losses)
            if record.epoch == stop:
                tensors, plain = made.state()
                copies = {key: value.clone() for key, value in tensors.items()}
                made = Training(task, recipe)
                made.load_state(copies, plain)
                losses += [record.losses for record in made.epochs()]
                break
        ends.append((made.state()[0], losses))
    for state, losses in ends[1:]:
        assert losses == ends[0][1]
        assert all(torch.equal(value, ends[0][0][key]) for key, value in state.items())


@pytest.mark.parametrize("name", ["an", "en", "l2r", "ll_cp"])
def test_a_loss_that_is_not_finite_is_named_as_in_the_general_way(name, feature_data, monkeypatch):
    recipe = recipe_of(name, batch_size=10, epochs=1)
    task = make_task(feature_data(80), recipe)
    task.train.inputs.x[3] = torch.nan  # which batch has it depends on the order
    found = []
    for rule in (suits, lambda training: False):
        monkeypatch.setattr(training_module, "suits", rule)
        made = Training(task, recipe)
        before = made.model.head.linear.weight.detach().clone()
        with pytest.raises(DivergedError, match=f"of {name} is not finite in epoch 1, batch") as e:
            list(made.epochs())
        found.append(str(e.value))
        weights = made.model.state_dict() | made.method.state_dict()
        assert all(value.isfinite().all() for value in weights.values())
        if rule is suits:
            assert torch.equal(made.model.head.linear.weight, before)
    assert found[0].split(":")[0] == found[1].split(":")[0]
