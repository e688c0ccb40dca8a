"""How a training runs its course: patience, learning rates, a teacher, phases, tokens."""

import numpy as np
import pytest
import torch

from plusone.data.dataset import Dataset
from plusone.errors import InputError
from plusone.methods import METHODS, Method, MethodInfo, Options


def run(training):
    return list(training.epochs())


def comparable(records):
    return [record.model_copy(update={"seconds": 0.0}) for record in records]


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
    from plusone.recipe import make_recipe
    from plusone.training.task import make_task
    from plusone.training.trainer import Training

    tiny_backbone.layers[0].requires_grad_(False)
    before = [weight.clone() for weight in tiny_backbone.layers[0].parameters()]
    norm = tiny_backbone.layers[1].weight.clone()
    recipe = make_recipe({"method": "an", "mode": "linear_init", "epochs": 1, "finetune_epochs": 1})
    list(Training(make_task(image_data(), recipe), recipe, backbone=tiny_backbone).epochs())
    after = list(tiny_backbone.layers[0].parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert not torch.equal(tiny_backbone.layers[1].weight, norm)


def test_more_positives_than_classes_are_refused(training, feature_data):
    with pytest.raises(InputError, match="expected_positives = 9 is more than the 4 classes"):
        training(feature_data(), method="epr", expected_positives=9)
    for value in (0, -1, float("nan")):
        with pytest.raises(InputError, match="expected_positives"):
            training(feature_data(), method="epr", expected_positives=value)
