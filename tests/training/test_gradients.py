"""Steps in pieces, half precision with a scaled loss, clipping, and activations computed again."""

import importlib.util
from functools import partial

import pytest
import torch
from torch import nn
from torch.amp import GradScaler

from plusone.device import AUTOCAST, allowing_tf32, autocasts
from plusone.errors import DivergedError, InputError
from plusone.inputs.task import make_task
from plusone.methods import METHODS
from plusone.models.backbones import backbone_for, checkpoint_activations
from plusone.prediction import load
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training import step, trainer
from plusone.training.pieces import Pieces
from plusone.training.run import train
from plusone.training.stage_inputs import batches_of
from plusone.training.step import training_step

needs_timm = pytest.mark.skipif(
    importlib.util.find_spec("timm") is None, reason="needs the extra image: pip install timm"
)


def state_after(training):
    list(training.epochs())
    return training.state()[0]


def assert_equal(mine, theirs):
    assert mine.keys() == theirs.keys()
    assert [key for key, value in mine.items() if not torch.equal(value, theirs[key])] == []


def test_both_passes_draw_the_same_dropout_and_statistics_move_once(training, image_data):
    data, ends = image_data(), []
    for two_passes in (False, True):
        made = training(data, backbone=True)
        model, batch = made.model.train(), next(batches_of(made))
        torch.manual_seed(7)
        if two_passes:
            pieces = Pieces(model, batch.views, 3)
            pieces.outs[0].logits.square().sum().backward()
            pieces.backward()
        else:
            parts = [model(x).logits for x in batch.views[0].tensor_split(3)]
            torch.cat(parts).square().sum().backward()
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        ends.append((gradients, dict(model.named_buffers()), torch.rand(3)))
    for mine, theirs in zip(ends[0][:2], ends[1][:2], strict=True):
        for name, value in mine.items():
            torch.testing.assert_close(value, theirs[name], msg=name)
    assert torch.equal(ends[0][2], ends[1][2])


def test_a_training_in_pieces(training, image_data):
    """A batch of 5, the last one, has four pieces as well; `en_cl` has a teacher and two views."""
    data = image_data(56)
    for method in ("epr", "en_cl"):
        options = {"method": method, "expected_positives": 1.5, "epochs": 1, "batch_size": 14}
        settings = options | {"options": dict(METHODS[method].quick), "freeze_norm": True}
        backbones = []
        for pieces in (1, 4):
            made = training(data, backbone=True, accumulate=pieces, **settings)
            made.model.backbone.layers[-1].p = 0.0  # of the dropout
            list(made.epochs())
            backbones.append(made.model.state_dict())
        for name, value in backbones[0].items():
            torch.testing.assert_close(backbones[1][name], value, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("precision", ["float32", "fp16"])
def test_clipping(precision, training, image_data):
    data, gradients = image_data(), []
    for clip in (None, 1e-2):
        made = training(data, backbone=True, clip=clip, optimizer="sgd", precision=precision)
        batch, model = next(batches_of(made)), made.model
        torch.manual_seed(0)  # of the dropout
        training_step(
            model, model.head, made.method, made.optimizer, batch, made.clock(),
            gradients=made.gradients,
        )  # fmt: skip
        gradients.append(torch.cat([w.grad.flatten() for w in model.parameters()]))
    free, clipped = gradients
    assert free.norm() > 0.05
    assert clipped.norm() == pytest.approx(1e-2, rel=1e-3)
    torch.testing.assert_close(clipped, free * 1e-2 / free.norm(), rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("precision", sorted(AUTOCAST))
def test_half_precision_trains_as_full_precision_does(precision, training, image_data):
    ends = []
    for numbers in ("float32", precision):
        made = training(image_data(), backbone=True, epochs=2, lr=0.01, precision=numbers)
        ends.append([record.losses["loss"] for record in made.epochs()])
        assert (made.gradients.scaler is not None) == (numbers == "fp16")
    assert ends[1] == pytest.approx(ends[0], rel=0.03)


@pytest.fixture
def scaled(monkeypatch):
    """Sets the first scale of the loss and the steps between its changes."""

    def setting(first, interval=2000):
        made = partial(GradScaler, init_scale=first, growth_interval=interval)
        monkeypatch.setattr(step, "GradScaler", made)

    return setting


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "an", "clip": 1.0},
        {"method": "an", "optimizer": "sgd"},
        {"method": "role", "options": {"estimator": "factored"}, "expected_positives": 1.5},
    ],
)
def test_a_step_whose_gradient_overflows_is_left_out(settings, scaled, training, image_data):
    scaled(2.0**100)
    made = training(image_data(), backbone=True, precision="fp16", batch_size=48, **settings)
    weights = {**dict(made.model.named_parameters()), **dict(made.method.named_parameters())}
    before = {name: weight.clone() for name, weight in weights.items()}
    made.train_epoch()  # one step
    assert [name for name, weight in weights.items() if not torch.equal(weight, before[name])] == []
    assert made.gradients.scaler.get_scale() == 2.0**99
    assert {float(slot["step"]) for slot in made.optimizer.state.values() if slot} <= {0.0}
    scaled(2.0**10)
    made.begin_stage()
    made.train_epoch()
    assert [name for name, weight in weights.items() if torch.equal(weight, before[name])] == []


def test_gradients_that_are_never_finite_end_the_training(scaled, training, image_data):
    class Infinite(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * torch.inf

    scaled(2.0**-22)
    made = training(image_data(), backbone=True, precision="fp16", batch_size=8)
    made.model.backbone.layers.append(nn.Identity())
    made.model.backbone.layers[-1].forward = Infinite.apply
    with pytest.raises(DivergedError, match=r"not finite in epoch 1, .* precision = bf16"):
        list(made.epochs())


def test_a_resumed_training_has_the_scale_of_the_loss(scaled, training, image_data):
    scaled(2.0**40, 2)
    settings = {"backbone": True, "precision": "fp16", "epochs": 3, "batch_size": 16, "lr": 0.01}
    whole = training(image_data(), **settings)
    epochs = whole.epochs()
    next(epochs)
    saved = whole.state()
    assert saved[1]["scaler"]["scale"] < 2.0**40
    resumed = training(image_data(), **settings)
    resumed.load_state({key: value.clone() for key, value in saved[0].items()}, saved[1])
    assert resumed.gradients.scaler.get_scale() == saved[1]["scaler"]["scale"]
    list(epochs)
    assert_equal(whole.state()[0], state_after(resumed))


def test_a_precision_that_a_device_does_not_have(training, image_data, monkeypatch):
    assert autocasts(torch.device("cpu"), "bf16")
    assert autocasts(torch.device("cpu"), "fp16")
    assert not autocasts(torch.device("meta"), "fp16")
    monkeypatch.setattr(trainer, "resolve", lambda name: torch.device("meta"))
    with pytest.raises(InputError, match="fp16 is not supported on meta; use float32"):
        training(image_data(), backbone=True, precision="fp16")


def test_a_run_of_a_device_with_half_precision_is_used_without(image_data, tmp_path, monkeypatch):
    recipe = make_recipe({"method": "an", "epochs": 1, "precision": "bf16", "image_size": 16})
    task = make_task(image_data(), recipe)
    train(task, recipe, tmp_path / "run")
    scores = {True: load_run(tmp_path / "run").probabilities(task.test.inputs)}
    monkeypatch.setattr(load, "autocasts", lambda device, precision: False)
    used = load_run(tmp_path / "run")
    assert used.model.precision == "float32"
    scores[False] = used.probabilities(task.test.inputs)
    torch.testing.assert_close(scores[True], scores[False], rtol=0, atol=0.02)


def test_tf32_is_for_cuda_and_put_back():
    before = torch.get_float32_matmul_precision()
    for device, allowed, inside in (
        ("cuda", True, "high"),
        ("cuda", False, before),
        ("cpu", True, before),
    ):
        with allowing_tf32(torch.device(device), allowed):
            assert torch.get_float32_matmul_precision() == inside
        assert torch.get_float32_matmul_precision() == before


@needs_timm
@pytest.mark.parametrize("pieces", [1, 2])
def test_activations_computed_again_change_nothing(pieces, training, image_data):
    given = {"epochs": 1, "batch_size": 24, "accumulate": pieces}
    ends, kept = [], []
    for again in (False, True):
        torch.manual_seed(0)
        module = backbone_for("timm/test_resnet").build(1, 64, "random")
        made = training(image_data(), backbone=module, checkpoint_activations=again, **given)
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, saved=saved: saved.append(x.numel()) or x, lambda x: x
        ):
            ends.append(state_after(made))
        kept.append(sum(saved))
    assert_equal(*ends)
    assert kept[1] < kept[0]


def test_a_backbone_that_keeps_all_activations(training, image_data):
    sentence = r"the backbone \(TinyBackbone\) cannot compute activations again; most of timm"
    with pytest.raises(InputError, match=sentence):
        training(image_data(), backbone=True, checkpoint_activations=True)


@needs_timm
def test_a_network_of_timm_that_cannot_compute_activations_again():
    net = backbone_for("timm/test_resnet").build(3, 64, "random")

    def refused(enable=True):
        raise AssertionError("gradient checkpointing not supported")

    net[1].net.set_grad_checkpointing = refused
    with pytest.raises(InputError, match="cannot compute activations again"):
        checkpoint_activations(net)
