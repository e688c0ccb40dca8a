"""Stacked trainings end where they would have ended alone."""

import dataclasses

import numpy as np
import pytest
import torch

from plusone.data import Dataset
from plusone.errors import DivergedError, InputError, RunError
from plusone.inputs import forward as predict
from plusone.inputs.task import make_task
from plusone.methods import METHODS
from plusone.methods._pointwise import Pointwise
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.stack import AloneError, train_stacked
from plusone.training.summary import summarise
from plusone.training.trainer import Training
from plusone.types import Batch, Clock, Outputs

pytestmark = pytest.mark.slow


def recipes_of(method, seeds=(0, 1), rates=(0.02, 0.003), **rest):
    given = {"method": method, "expected_positives": 1.7, "epochs": 3, "batch_size": 16}
    given |= {"options": dict(METHODS[method].quick)} | rest
    return [make_recipe(given, {"seed": seed, "lr": lr}) for seed in seeds for lr in rates]


def without_time(records):
    return [record.model_copy(update={"seconds": 0.0}) for record in records]


def assert_as_alone(task, recipes, compared=slice(None)):
    """Stacked trainings and trainings one by one give the same."""
    stacked = train_stacked(task, recipes)
    assert len(stacked) == len(recipes)
    for recipe, (training, records) in list(zip(recipes, stacked, strict=True))[compared]:
        alone = fit_for(task, recipe)
        expected = list(alone.epochs())
        assert training.recipe is recipe
        assert training.done
        assert training.best.epoch == alone.best.epoch
        assert training.stage_maps == pytest.approx(alone.stage_maps, abs=1e-6)
        assert len(records) == len(expected)
        for mine, theirs in zip(records, expected, strict=True):
            assert (mine.stage, mine.epoch, mine.best) == (theirs.stage, theirs.epoch, theirs.best)
            assert mine.val_map == pytest.approx(theirs.val_map, abs=1e-6)
            assert mine.val_score == pytest.approx(theirs.val_score, abs=1e-6)
            assert mine.selected_by == theirs.selected_by
            assert mine.losses == pytest.approx(theirs.losses, rel=1e-4, abs=1e-6)
            assert_probes_close(mine.probe, theirs.probe)
        for part in ("model", "method"):
            state, other = (getattr(each, part).state_dict() for each in (training, alone))
            assert state.keys() == other.keys()
            for name, value in state.items():
                torch.testing.assert_close(value, other[name], rtol=1e-4, atol=2e-6)


def assert_probes_close(mine, theirs):
    assert (mine is None) == (theirs is None)
    if mine is not None and theirs is not None:
        assert mine.distance == pytest.approx(theirs.distance, abs=1e-4)
        for name in ("positives", "negatives"):
            counts, others = (np.array(getattr(probe, name)) for probe in (mine, theirs))
            assert counts.sum() == others.sum() > 0
            assert np.abs(counts - others).sum() <= 2  # one label may fall beyond a bin's edge


@pytest.mark.parametrize("name", sorted(n for n in METHODS if METHODS[n].trains_on(["features"])))
def test_every_method_is_as_alone_or_says_why_it_must_be(name, feature_data):
    recipes = recipes_of(name)
    task = make_task(feature_data(200), recipes[0])
    if METHODS[name].alone is None:
        # One of each seed and each rate; with the others, rows and columns could change places.
        assert_as_alone(task, recipes, slice(1, 3))
    else:
        with pytest.raises(AloneError, match=METHODS[name].alone):
            train_stacked(task, recipes)


@pytest.mark.parametrize("name", sorted(name for name in METHODS if METHODS[name].alone is None))
@pytest.mark.rounding
def test_gradients_of_a_stack_are_those_of_its_runs(name, feature_data):
    """Adam hardly notices the size of gradients, so they are compared here."""
    recipe = recipes_of(name)[0]
    task = make_task(feature_data(200), recipe)
    method, clock = fit_for(task, recipe).method, Clock(0, 1, 3, 4, 5)
    torch.manual_seed(0)
    index = torch.stack([torch.randperm(len(task.train))[:6] for _ in range(2)])
    observed = torch.from_numpy(task.train.observed.dense()).float()[index]
    logits, x = 3 * torch.randn(3, 2, 6, 4, requires_grad=True), torch.randn(2, 6, 8)

    def loss(logits, x, observed, index):
        views = (x,) * len(method.views)
        outs = tuple(Outputs(logits, view) for view in views)
        return method.loss(outs, Batch(views, observed, index), clock)

    terms = loss(logits, x, observed.expand(3, -1, -1, -1), index)
    (gradient,) = torch.autograd.grad([term.sum() for term in terms.values()], logits)
    for rate in range(3):
        for seed in range(2):
            z = logits[rate, seed].detach().requires_grad_()
            alone = loss(z, x[seed], observed[seed], index[seed])
            (expected,) = torch.autograd.grad(list(alone.values()), z)
            torch.testing.assert_close(gradient[rate, seed], expected)
            for name, term in terms.items():
                torch.testing.assert_close(term[rate, seed], alone[name])


@pytest.mark.parametrize(
    ("n", "batch_size"),
    [(200, 30), (200, 200), (24, 16), (60, 1)],
    ids=["a smaller last batch", "fewer items than a batch", "few items", "one item a batch"],
)
@pytest.mark.parametrize("method", ["gr", "softmax", "epr", "lasd"])
@pytest.mark.rounding
def test_batches_of_any_size(method, n, batch_size, feature_data):
    recipes = recipes_of(method, batch_size=batch_size, epochs=2)
    assert_as_alone(make_task(feature_data(n), recipes[0]), recipes)


@pytest.mark.parametrize(
    "settings",
    [
        {"weight_decay": 0.1, "head_lr_mult": 3.0},
        {"probe": "off"},
        {"select_on": "observed", "empty": "skip"},
        {"options": {"variant": "released"}},
        {"stages": [{"inputs": "features", "epochs": 2, "lr": 0.01}]},
        {"threads": 1},
        {"observe": "positives_and_negatives(1, 1)"},
    ],
    ids=str,
)
def test_settings_mean_what_they_mean_alone(settings, feature_data):
    recipes = recipes_of("gr", **settings)
    assert_as_alone(make_task(feature_data(), recipes[0]), recipes)


@pytest.mark.parametrize(
    "runs", [[(0, 0.01)], [(0, 0.01), (0, 0.01)], [(5, 0.01), (0, 0.1), (5, 0.1), (7, 0.01)]]
)
@pytest.mark.rounding
def test_any_set_of_runs_not_only_full_grids(runs, feature_data):
    recipes = [recipes_of("em", (seed,), (lr,))[0] for seed, lr in runs]
    assert_as_alone(make_task(feature_data(), recipes[0]), recipes)


def test_half_precision_features(feature_data):
    recipes = recipes_of("an")
    task = make_task(feature_data(), recipes[0])
    for part in (task.train, task.val):
        object.__setattr__(part.inputs, "x", part.inputs.x.half())
    assert_as_alone(task, recipes)


def test_logits_that_are_too_many_are_predicted_in_parts(feature_data, monkeypatch):
    monkeypatch.setattr("plusone.training.stack.LOGITS", 3000)
    monkeypatch.setitem(predict.ROWS, "features", 50)
    recipes = recipes_of("em")
    assert_as_alone(make_task(feature_data(), recipes[0]), recipes)


def test_the_same_stack_gives_the_same_numbers(feature_data):
    recipes = recipes_of("gr")
    task = make_task(feature_data(), recipes[0])
    first, second = train_stacked(task, recipes), train_stacked(task, recipes)
    for (one, records), (other, others) in zip(first, second, strict=True):
        assert without_time(records) == without_time(others)
        for name, value in one.model.state_dict().items():
            assert torch.equal(value, other.model.state_dict()[name])


def test_seen_labels_choose_as_they_do_alone(feature_data):
    recipes = recipes_of("an", select_on="observed", select_by="seen_auc")
    assert_as_alone(make_task(feature_data(), recipes[0]), recipes)


def test_trainings_of_another_class_can_watch(feature_data):
    seen = []

    class Watched(Training):
        def validated(self, logits):
            seen.append((self.recipe.lr, logits.shape))
            return super().validated(logits)

    recipes = recipes_of("an", seeds=(0,))
    task = make_task(feature_data(), recipes[0])
    train_stacked(task, recipes, kind=Watched)
    rates = sorted(recipe.lr for recipe in recipes)
    assert seen == [(lr, (len(task.val), 4)) for _ in range(3) for lr in rates]


def test_finished_trainings_can_be_summarised(feature_data):
    recipes = recipes_of("em")
    task = make_task(feature_data(), recipes[0])
    for recipe, (training, records) in zip(recipes, train_stacked(task, recipes), strict=True):
        alone = fit_for(task, recipe)
        list(alone.epochs())
        mine, theirs = summarise(training, None, 1.0), summarise(alone, None, 1.0)
        assert mine.to_json().keys() == theirs.to_json().keys()
        assert (mine.lr, mine.seed) == (recipe.lr, recipe.seed)
        assert mine.test_map == pytest.approx(theirs.test_map, abs=1e-6)
        assert mine.val_map == max(record.val_map for record in records)
        # A checkpoint of it holds its own weights only.
        storage = training.model.head.linear.weight.untyped_storage()
        assert storage.nbytes() == training.model.head.linear.weight.nbytes


def test_epochs_are_told_and_their_time_is_shared(feature_data):
    recipes, told = recipes_of("an"), []
    found = train_stacked(make_task(feature_data(), recipes[0]), recipes, told.append)
    assert told == [1, 2, 3]
    for epoch in range(3):
        (seconds,) = {records[epoch].seconds for _, records in found}
        assert seconds > 0


def test_nothing_to_train(feature_data):
    assert train_stacked(make_task(feature_data(), recipes_of("an")[0]), []) == []


@pytest.mark.parametrize(
    "other", [{"epochs": 4}, {"batch_size": 8}, {"options": {"alpha": 0.5}}, {"weight_decay": 0.1}]
)
def test_recipes_that_differ_elsewhere_are_refused(other, feature_data):
    recipes = recipes_of("em", (0,), (0.1,)) + recipes_of("em", (1,), (0.1,), **other)
    (name,) = other
    with pytest.raises(ValueError, match=f"not in {name}"):
        train_stacked(make_task(feature_data(), recipes[0]), recipes)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"optimizer": "sgd"}, "sgd"),
        ({"schedule": "one_cycle"}, "schedule"),
        ({"ema": 0.9}, "averaged"),
        ({"patience": 2}, "stop early"),
        ({"clip": 1.0}, "clipped"),
        ({"stages": [{"inputs": "features", "epochs": 1}] * 2}, "stages"),
    ],
)
def test_settings_that_cannot_be_stacked(settings, reason, feature_data):
    recipe = recipes_of("an", **settings)[0]
    with pytest.raises(AloneError, match=reason):
        train_stacked(make_task(feature_data(), recipe), [recipe])


def test_images_and_tokens_cannot_be_stacked(image_data):
    recipe = recipes_of("an")[0]
    with pytest.raises(AloneError, match="feature vectors"):
        train_stacked(make_task(image_data(), recipe), [recipe])
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(60, 3, 8)).astype(np.float32)
    data = Dataset.from_arrays(tokens, (rng.random((60, 4)) < 0.5).astype(np.int8), complete=True)
    with pytest.raises(AloneError, match="feature vectors"):
        train_stacked(make_task(data, recipe), [recipe])


def test_a_loss_that_is_not_finite_names_its_run(feature_data):
    recipes = recipes_of("l2r", seeds=(4,), rates=(1e-3, 1e30))
    named = r"l2r with lr 1e\+30 and seed 4 is not finite in epoch 1, batch \d+: \{'loss': "
    with pytest.raises(RunError, match=named):
        train_stacked(make_task(feature_data(), recipes[0]), recipes)


def test_options_that_a_loss_refuses_are_named(feature_data):
    recipes = recipes_of("wan", options={"gamma": 5.0})
    with pytest.raises(InputError, match="options of wan: gamma must lie"):
        train_stacked(make_task(feature_data(), recipes[0]), recipes)


def test_weighted_items_are_visited_as_often_as_alone(feature_data):
    recipes = recipes_of("an")
    task = make_task(feature_data(80), recipes[0])
    weights = np.arange(1.0, len(task.train) + 1)
    assert_as_alone(
        dataclasses.replace(task, train=dataclasses.replace(task.train, weights=weights)), recipes
    )


def test_weights_that_are_not_finite_stop_it_although_the_loss_is(feature_data, monkeypatch):
    plain = Pointwise.loss

    def loss(self, outs, batch, clock):
        terms = plain(self, outs, batch, clock)
        if clock.epoch == 1 and clock.step == clock.steps - 1:  # no later step would notice it
            logits = outs[0].logits
            terms["odd"] = (torch.sqrt(logits - logits.detach()) * 0).sum((-2, -1))
        return terms

    monkeypatch.setattr(Pointwise, "loss", loss)
    recipes = recipes_of("an")
    with pytest.raises(DivergedError, match=r"weights .* are not finite after epoch 2 of an"):
        train_stacked(make_task(feature_data(), recipes[0]), recipes)
