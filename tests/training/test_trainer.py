"""The training loop: it learns, repeats itself, resumes, and selects the best epoch."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from tests.training.conftest import scores_of
from torch import nn

from plusone.data.dataset import Dataset
from plusone.errors import InputError, RunError
from plusone.inputs.task import make_task
from plusone.methods import METHODS, Method, MethodInfo, Options
from plusone.metrics import mean_average_precision
from plusone.metrics.seen_labels import DEFAULT, SCORES
from plusone.prediction import checkpoint
from plusone.recipe import Recipe, make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.selection import Validator

FAST = {"epochs": 3, "lr": 0.02, "batch_size": 32}


def run(training):
    return list(training.epochs())


def comparable(records):
    return [record.model_copy(update={"seconds": 0.0}) for record in records]


def weights(training):
    return {f"model.{k}": v.clone() for k, v in training.model.state_dict().items()} | {
        f"method.{k}": v.clone() for k, v in training.method.state_dict().items()
    }


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_it_learns_from_one_label_per_item(training, feature_data):
    made = training(feature_data(), epochs=15, lr=0.05)
    assert made.task.train.observed.per_item(1).max() == 1
    records = run(made)
    losses = [record.losses["loss"] for record in records]
    assert losses[-1] < 0.8 * losses[0]
    assert records[-1].val_map > 0.85
    assert [record.epoch for record in records] == list(range(1, 16))
    assert {record.selected_on for record in records} == {"truth"}
    assert made.done


def test_it_learns_images(training, image_data):
    made = training(image_data(), backbone=True, epochs=12, lr=0.02, method="bce")
    assert max(record.val_map for record in run(made)) > 0.8


def test_the_best_epoch_is_put_in_place(training, feature_data):
    made = training(feature_data(), epochs=6, lr=0.3, batch_size=8)
    kept = {}
    for record in made.epochs():
        if record.best:
            kept = {"score": record.val_map, "epoch": record.epoch}
    assert made.best.score == kept["score"]
    assert made.best.epoch == kept["epoch"] < 6  # else this would show nothing
    truth = made.task.val.truth.dense() == 1
    scores = made.predict(made.task.val)
    assert mean_average_precision(scores, truth, empty="zero") == kept["score"]


SETTINGS = {
    "linear": {"epochs": 4, "lr": 0.02},
    "sgd": {"epochs": 3, "optimizer": "sgd", "weight_decay": 0.01},
    "adamw": {"epochs": 3, "optimizer": "adamw", "weight_decay": 0.01, "ema": 0.9},
    "finetune": {"backbone": True, "epochs": 3, "flip": True, "lr": 0.01},
    "linear_init": {
        "backbone": True, "mode": "linear_init", "epochs": 2, "finetune_epochs": 2,
        "ema": 0.8, "flip": True, "lr": 0.02,
    },
    "stages": {
        "backbone": True,
        "method": "em",
        "flip": True,
        "stages": [
            {"epochs": 1, "options": {"alpha": 0.5}},
            {"epochs": 1, "freeze_backbone": True, "start_from": "last", "options": {"alpha": 2.0}},
            {"epochs": 2, "lr": 0.01},
        ],
    },
    "gr": {"method": "gr", "epochs": 4},
    "wan_sampled": {"method": "wan_sampled", "epochs": 3},
    "lac": {
        "method": "lac", "backbone": True, "epochs": 2, "flip": True, "lr": 0.003, "ema": 0.9,
        "optimizer": "adamw", "schedule": "one_cycle",
        "options": {"width": 8, "heads": 2, "feedforward": 16, "queue": 24, "delta": 0.5},
    },
    "teacher": {
        "method": "en_cl", "epochs": 3, "expected_positives": 1.7, "backbone": True, "flip": True,
    },
    "patience": {"epochs": 9, "lr": 0.3, "patience": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_stopped_after_any_epoch_it_ends_the_same(
    name, training, feature_data, image_data, tmp_path
):
    settings = {"batch_size": 16} | SETTINGS[name]
    data = image_data() if settings.get("backbone") else feature_data(120)
    whole, records = training(data, **settings), []
    for record in whole.epochs():
        records.append(record)
        checkpoint.save(tmp_path / f"{len(records)}", *whole.state())
    assert len(records) > 2
    for stop in range(1, len(records) + 1):
        torch.manual_seed(stop)  # whatever the process did before must not matter
        resumed = training(data, **settings)
        resumed.load_state(*checkpoint.load(tmp_path / f"{stop}"))
        assert comparable(run(resumed)) == comparable(records[stop:])
        assert same(weights(resumed), weights(whole)), stop
        assert (resumed.best.score, resumed.best.epoch) == (whole.best.score, whole.best.epoch)


@pytest.mark.parametrize("name", ["linear", "linear_init"])
def test_the_seed_decides(name, training, feature_data, image_data):
    settings = {"batch_size": 16} | SETTINGS[name]
    data = image_data() if settings.get("backbone") else feature_data(120)
    ends = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(ends))
        made = training(data, seed=seed, **settings)
        records = comparable(run(made))
        ends.append((weights(made), records))
    assert same(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]
    assert not same(ends[0][0], ends[2][0])


def test_training_leaves_the_global_generator_alone(training, image_data):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    run(training(image_data(), backbone=True, epochs=1))
    assert torch.equal(torch.rand(1), expected)


def test_steps_are_reported(feature_data):
    from plusone.inputs.task import make_task

    clocks = []
    recipe = make_recipe({"method": "an", "epochs": 2, "batch_size": 32})
    run(fit_for(make_task(feature_data(100), recipe), recipe, on_step=clocks.append))
    assert [(c.epoch, c.step, c.steps) for c in clocks] == [
        (0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2),
    ]  # fmt: skip


class Watching(Method):
    """Notes which items it meets."""

    def loss(self, outs, batch, clock):
        seen = self.__dict__.setdefault("met", {}).setdefault(clock.epoch, [])
        seen += batch.index.tolist()
        assert batch.observed.tolist() == self.labels.observed.dense(batch.index.numpy()).tolist()
        return {"loss": outs[0].logits.square().mean()}


def test_every_epoch_meets_all_items_in_an_order_of_its_own(training, feature_data, monkeypatch):
    register(monkeypatch, Watching)
    made = training(feature_data(100), method="toy", **FAST)
    run(made)
    orders = made.method.met
    assert all(sorted(order) == list(range(len(made.task.train))) for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == 3


class Broken(Method):
    """Its loss is not a number in the second batch of the second epoch."""

    def loss(self, outs, batch, clock):
        value = outs[0].logits.sum()
        return {"term": value * math.nan if clock.epoch == 1 and clock.step == 1 else value}


def register(monkeypatch, build, options=Options, name="toy", **rest):
    monkeypatch.setitem(
        METHODS, name, MethodInfo(name, build, options, "none", 2024, "a toy", **rest)
    )


def test_a_loss_that_is_no_number_stops_with_a_sentence(training, feature_data, monkeypatch):
    register(monkeypatch, Broken)
    made = training(feature_data(), method="toy", **FAST)
    with pytest.raises(RunError, match=r"of toy is .* epoch 2, batch 2: .*term.*nan"):
        run(made)


def test_selection_on_seen_labels(training, feature_data):
    data = feature_data()
    made = training(data, select_on="observed", **FAST)
    assert made.validator.selected_on == "observed"
    records = run(made)
    assert {(record.selected_on, record.selected_by) for record in records} == {
        ("observed", DEFAULT)
    }
    seen, found = made.task.val.observed.dense(), made.predict(made.task.val)
    best = max(records, key=lambda record: record.val_score)  # its weights are in place now
    assert best.val_score == pytest.approx(SCORES[DEFAULT].function(found, seen), abs=1e-6)
    assert best.val_map == pytest.approx(
        mean_average_precision(found, seen, empty="zero"), abs=1e-6
    )
    partial = training(feature_data(complete=False), **FAST)
    assert partial.task.train.truth is None
    assert partial.validator.selected_on == "observed"
    assert len(run(partial)) == 3
    with pytest.raises(InputError, match="select_on = 'truth' needs"):
        training(feature_data(complete=False), select_on="truth")


def test_the_better_of_raw_and_averaged_weights_is_kept(training, feature_data):
    made = training(feature_data(), ema=0.9, epochs=6, lr=0.5, batch_size=8, optimizer="sgd")
    chosen = []
    for record in made.epochs():
        chosen.append(record.weights)
        if record.best and not made.done:
            better = made.ema.model if record.weights == "ema" else made.model
            kept = {f"{k}": v for k, v in better.state_dict().items()}
            assert same(kept, made.best.model)
    assert "ema" in chosen
    slow = training(feature_data(), ema=0.9999, epochs=3, lr=0.05, batch_size=8)
    assert {record.weights for record in slow.epochs()} == {"raw"}


def test_linear_init_goes_on_with_the_best_linear_weights(training, image_data):
    made = training(image_data(), backbone=True, mode="linear_init", epochs=4, finetune_epochs=1,
                    lr=0.3)  # fmt: skip
    before = {k: v.clone() for k, v in made.model.backbone.state_dict().items()}
    best = None
    for record in made.epochs():
        if record.stage == 0 and record.best and record.epoch < 4:
            best = {k: v.clone() for k, v in made.best.model.items()}
        if record.stage == 0 and record.epoch == 4:
            if record.best:
                pytest.fail("choose settings whose last linear epoch is not the best")
            assert same(dict(made.model.state_dict()), best)
            assert same(dict(made.model.backbone.state_dict()), before)
            assert made.best is None
    assert not same(dict(made.model.backbone.state_dict()), before)


def test_a_frozen_backbone_stays_as_it_is(training, image_data):
    stages = [{"epochs": 2, "freeze_backbone": True}]
    made = training(image_data(), backbone=True, stages=stages, lr=0.1)
    before = {k: v.clone() for k, v in made.model.state_dict().items()}
    run(made)
    after = made.model.state_dict()
    assert all(torch.equal(after[k], v) for k, v in before.items() if k.startswith("backbone."))
    assert not torch.equal(after["head.linear.weight"], before["head.linear.weight"])


@dataclasses.dataclass(frozen=True)
class ToyOptions(Options):
    rate: float = 0.25


class Toy(Method):
    """Has a parameter, a buffer written after each step, one after each epoch, and two views."""

    views = ("weak", "weak")
    lr_mult = 3.0

    def __init__(self, labels, options):
        super().__init__(labels, options)
        self.offset = nn.Parameter(torch.zeros(labels.n_classes))
        self.register_buffer("seen", torch.zeros(labels.n_items))
        self.register_buffer("guess", torch.zeros(labels.n_items, labels.n_classes))
        self.shapes = set()

    def loss(self, outs, batch, clock):
        a, b = outs
        assert a.logits.shape == b.logits.shape == batch.observed.shape
        assert len(batch.views) == 2
        self.shapes.add((tuple(a.features.shape[1:]), torch.equal(a.logits, b.logits)))
        y = batch.observed.relu()
        cost = nn.functional.binary_cross_entropy_with_logits(a.logits + self.offset, y)
        return {"cost": cost, "agree": self.options.rate * (a.logits - b.logits).square().mean()}

    def after_step(self, outs, batch, clock):
        self.seen[batch.index] += 1

    def after_epoch(self, clock, predict):
        logits = predict()
        assert not logits.requires_grad
        self.guess.copy_(torch.sigmoid(logits))

    def estimates(self):
        return self.guess


def test_a_method_with_state_is_trained_saved_and_resumed(training, image_data, monkeypatch):
    register(monkeypatch, Toy, ToyOptions)
    settings = {"backbone": True, "method": "toy", "epochs": 4, "flip": True, "lr": 0.01}
    made = training(image_data(), **settings)
    assert made.optimizer.param_groups[-1]["lr"] == pytest.approx(0.03)
    n = len(made.task.train)
    steps, saved = made.epochs(), None
    for _ in range(2):
        assert set(next(steps).losses) == {"cost", "agree"}
    assert made.method.offset.abs().sum() > 0
    assert made.method.seen.tolist() == [2.0] * n
    expected = made.predict(made.task.train)
    torch.testing.assert_close(made.method.estimates(), expected)
    assert made.method.estimates().shape == (n, 3)
    assert made.method.shapes == {((8,), False)}  # two different views of each batch
    tensors, plain = made.state()
    saved = ({key: value.clone() for key, value in tensors.items()}, plain)
    list(steps)
    resumed = training(image_data(), **settings)
    resumed.load_state(*saved)
    assert resumed.method.seen.tolist() == [2.0] * n
    run(resumed)
    assert same(weights(resumed), weights(made))
    assert made.method.seen.unique().tolist() == [float(made.best.epoch)]


def test_the_best_of_the_stage_before_is_known_until_there_is_another(training, feature_data):
    settings = {"stages": [{"inputs": "features", "epochs": 1}] * 2}
    made = training(feature_data(), **settings)
    first = made.epochs()
    next(first)
    assert made.best is None
    resumed = training(feature_data(), **settings)
    resumed.load_state(*made.state())
    assert resumed.before.epoch == made.before.epoch == 1
    assert same(resumed.before.model, made.before.model)
    next(first)
    tensors, plain = made.state()
    assert plain["before"] is None
    assert not any(name.startswith("before") for name in tensors)


def test_options_of_a_stage_are_checked_before_training(training, feature_data):
    stages = [{"inputs": "features", "epochs": 1, "options": {"alpha": 1}}]
    assert training(feature_data(), method="em", stages=stages).method.options.alpha == 1
    with pytest.raises(InputError, match="unknown method option 'alpha'"):
        training(feature_data(), method="an", stages=stages)


def test_features_are_extracted_again_after_the_backbone_has_changed(training, image_data):
    stages = [
        {"inputs": "features", "epochs": 1},
        {"inputs": "images", "epochs": 2, "start_from": "last"},
        {"inputs": "features", "epochs": 1, "start_from": "last"},
    ]
    made = training(image_data(), backbone=True, stages=stages, lr=0.05)
    run(made)
    val = made.task.val
    torch.testing.assert_close(made.predict(val), scores_of(made, val.inputs))


def test_k_is_counted_or_estimated_or_given(training, feature_data):
    counted = training(feature_data(), method="epr")
    assert counted.k == pytest.approx(counted.task.val.truth.per_item(1).mean())
    blind = training(feature_data(), method="epr", select_on="observed")
    assert blind.expected.source == "estimated"
    assert training(feature_data(), method="an").k is None
    made = training(feature_data(), method="epr", expected_positives="truth")
    assert made.k == pytest.approx(made.task.train.truth.per_item(1).mean())
    assert training(feature_data(), method="epr", expected_positives=1.5).k == 1.5
    with pytest.raises(InputError, match="needs a data set with all labels"):
        training(feature_data(complete=False), method="epr", expected_positives="truth")


def test_data_without_a_validation_share_is_refused(training, feature_data):
    with pytest.raises(InputError, match="no items are left for the val split"):
        training(feature_data(2, split=["train", "train"]))


def test_patience_ends_a_stage(training, feature_data):
    settings = {"epochs": 30, "lr": 0.3, "batch_size": 8}
    records = run(training(feature_data(), patience=2, **settings))
    best = max(range(len(records)), key=lambda number: records[number].val_map)
    assert len(records) == best + 1 + 2 < 30
    whole = run(training(feature_data(), **settings))
    assert comparable(records) == comparable(whole[: len(records)])


def test_patience_counts_in_each_stage_anew(training, feature_data):
    stages = [{"inputs": "features", "epochs": 20, "lr": 0.3}] * 2
    records = run(training(feature_data(), batch_size=8, patience=1, stages=stages))
    for stage in (0, 1):
        scores = [record.val_map for record in records if record.stage == stage]
        assert scores.index(max(scores)) == len(scores) - 2


def test_one_cycle_moves_every_learning_rate(training, feature_data):
    rates = []
    made = training(
        feature_data(), epochs=4, batch_size=16, lr=0.01, head_lr_mult=2.0, schedule="one_cycle"
    )
    made.on_step = lambda clock: rates.append(made.optimizer.param_groups[0]["lr"])
    run(made)
    top = rates.index(max(rates))
    assert max(rates) == pytest.approx(0.02, rel=1e-2)
    assert rates[0] == pytest.approx(0.02 * 0.04)
    assert 0.25 * len(rates) < top < 0.35 * len(rates)
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] < 0.01 * max(rates)


class Follower(Method):
    """Remembers what its teacher said."""

    teacher = 0.75

    def loss(self, outs, batch, clock):
        (said,) = batch.teacher
        assert not said.logits.requires_grad
        self.heard = said.logits
        return {"loss": (outs[0].logits - 1).square().mean()}


def test_a_teacher_is_the_moving_average_of_the_model(training, feature_data, monkeypatch):
    info = MethodInfo("follower", Follower, Options, "none", 2026, "for this test")
    monkeypatch.setitem(METHODS, "follower", info)
    made = training(feature_data(), method="follower", epochs=1, batch_size=90)
    average = made.model.head.linear.weight.detach().clone()
    weights = []
    made.on_step = lambda clock: weights.append(made.model.head.linear.weight.detach().clone())
    run(made)
    for weight in weights:
        average = 0.75 * average + 0.25 * weight
    found = made.averages["teacher"].model.head.linear.weight
    torch.testing.assert_close(found, average)
    assert made.method.heard.shape[1] == 4


def test_two_phases_train_one_after_the_other(training, feature_data):
    options = {"width": 8, "heads": 2, "feedforward": 16, "delta": 0.5}
    made = training(feature_data(80), method="lac", epochs=2, options=options)
    records = run(made)
    assert [(record.stage, record.epoch) for record in records] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert set(records[0].losses) == {"an", "plc"}
    assert set(records[2].losses) == {"an", "plc", "lac"}


@pytest.mark.parametrize("method", ["an", "lac"])
def test_items_of_several_tokens(training, method):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 5, 6)).astype(np.float32)
    y = (x.mean(1) @ rng.normal(size=(6, 3)) > 0.2).astype(np.int8)
    y[~y.any(1), 0] = 1
    data = Dataset.from_arrays(x, y, complete=True)
    options = {"width": 8, "heads": 2, "feedforward": 16} if method == "lac" else {}
    made = training(data, method=method, epochs=2, lr=0.01, options=options)
    run(made)
    assert made.predict(made.task.val).shape == (24, 3)
    if method == "an":
        assert made.model.head.linear.in_features == 6
        pooled = training(
            Dataset.from_arrays(x.mean(1), y, complete=True), method=method, epochs=2, lr=0.01
        )
        run(pooled)
        torch.testing.assert_close(
            made.predict(made.task.val), pooled.predict(pooled.task.val), atol=1e-5, rtol=1e-4
        )


def test_what_an_own_backbone_keeps_fixed_stays_so(training, image_data, tiny_backbone):
    from plusone.inputs.task import make_task
    from plusone.recipe import make_recipe
    from plusone.training.closed_fit import fit_for

    tiny_backbone.layers[0].requires_grad_(False)
    before = [weight.clone() for weight in tiny_backbone.layers[0].parameters()]
    norm = tiny_backbone.layers[1].weight.clone()
    recipe = make_recipe({"method": "an", "mode": "linear_init", "epochs": 1, "finetune_epochs": 1})
    list(fit_for(make_task(image_data(), recipe), recipe, backbone=tiny_backbone).epochs())
    after = list(tiny_backbone.layers[0].parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert not torch.equal(tiny_backbone.layers[1].weight, norm)


def test_more_positives_than_classes_are_refused(training, feature_data):
    with pytest.raises(InputError, match="expected_positives = 9 is more than the 4 classes"):
        training(feature_data(), method="epr", expected_positives=9)
    for value in (0, -1, float("nan")):
        with pytest.raises(InputError, match="expected_positives"):
            training(feature_data(), method="epr", expected_positives=value)


@pytest.fixture
def val(feature_data):
    return make_task(feature_data(), Recipe(method="an")).val


@pytest.fixture
def probabilities(val):
    return torch.from_numpy(np.random.default_rng(0).random((len(val), 4)))


def test_all_labels_are_evaluated_by_map(val, probabilities):
    validator = Validator(val, Recipe(select_by="pick_likelihood"))
    validation = validator(torch.logit(probabilities))
    assert (validator.selected_on, validator.selected_by) == ("truth", "map")
    assert (
        validation.score
        == validation.val_map
        == mean_average_precision(probabilities, val.truth.dense() == 1)
    )


@pytest.mark.parametrize("name", ["auto", *SCORES])
def test_seen_labels_are_evaluated_by_a_score(val, probabilities, name):
    validator = Validator(val, Recipe(select_on="observed", select_by=name))
    validation, seen = validator(torch.logit(probabilities)), val.observed.dense()
    assert validator.selected_on == "observed"
    assert validator.selected_by == (DEFAULT if name == "auto" else name)
    expected = SCORES[validator.selected_by].function(probabilities, seen)
    assert validation.score == pytest.approx(expected, abs=1e-12)
    assert validation.val_map == mean_average_precision(probabilities, seen == 1)


def test_validation_items_without_the_labels_it_needs_are_refused(val):
    unlabelled = dataclasses.replace(val, truth=None)
    assert Validator(unlabelled, Recipe()).selected_on == "observed"
    with pytest.raises(InputError, match="select_on = 'truth' needs"):
        Validator(unlabelled, Recipe(select_on="truth"))
    nothing = type(val.observed).from_dense(np.zeros((len(val), 4), dtype=np.int8), default=0)
    with pytest.raises(InputError, match="no validation item has a positive label"):
        Validator(dataclasses.replace(unlabelled, observed=nothing), Recipe())


@pytest.mark.parametrize("name", [name for name in SCORES if SCORES[name].of_ranks])
def test_scores_on_seen_labels_do_not_tie_where_probabilities_round(val, name):
    """All probabilities of these log-odds are 1 in float64."""
    z = torch.randn(len(val), val.observed.n_classes, generator=torch.Generator().manual_seed(0))
    validator = Validator(val, make_recipe({"select_on": "observed", "select_by": name}))
    assert validator(z * 10 + 200).score == pytest.approx(validator(z).score)


def test_a_frozen_part_that_is_not_there_is_refused_before_the_first_stage(training, image_data):
    stages = [{"inputs": "features", "epochs": 1}, {"inputs": "images", "epochs": 1}]
    with pytest.raises(InputError, match="freeze: the backbone has no part 'conv1'; its parts"):
        training(image_data(16), backbone=True, freeze=["conv1"], stages=stages)
