"""The same checks on the accelerator of this machine, where it has one: `make test-accelerator`."""

from contextlib import contextmanager

import pytest
import torch

from plusone.device import describe, resolve
from plusone.inputs.task import make_task
from plusone.methods import METHODS
from plusone.recipe import make_recipe
from plusone.training.stack import train_stacked

pytestmark = pytest.mark.accelerator

CLOSE = 2e-3  # of probabilities: orders of summation differ, and training amplifies that


def settings(name, **rest):
    options = dict(METHODS[name].quick)
    if METHODS[name].inputs == "vectors":  # of images too
        rest["mode"] = "linear"
    return {"method": name, "expected_positives": 1.7, "lr": 0.02, "options": options} | rest


@contextmanager
def no_host_reads():
    """CUDA raises an error where an operation waits for a value; others cannot tell."""
    if not torch.cuda.is_available():
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def scores(training):
    for _ in training.epochs():
        pass
    return training.predict(training.task.test)


def test_the_device_is_named(accelerator):
    print(f"\naccelerator: {describe(resolve('auto'))}")


def test_every_method_on_features_as_on_the_cpu(accelerator, inside_steps, training, feature_data):
    inside_steps(no_host_reads)  # a step on the CPU makes no device wait
    data = feature_data(60)
    for name in sorted(name for name in METHODS if METHODS[name].inputs != "images"):
        given = settings(name, epochs=2, batch_size=16)
        here = scores(training(data, device="cpu", **given))
        there = scores(training(data, device=accelerator.type, **given))
        assert torch.isfinite(there).all(), name
        if not hasattr(METHODS[name].options, "dropout"):  # in the head
            assert torch.allclose(here, there, atol=CLOSE), name


def test_every_method_trains_on_images(accelerator, inside_steps, training, image_data):
    """Dropout in the backbone draws on the device, so figures are not compared."""
    inside_steps(no_host_reads)
    data = image_data(32)
    for name in sorted(METHODS):
        given = settings(name, epochs=2, backbone=True, ema=0.9)
        there = scores(training(data, device=accelerator.type, **given))
        assert torch.isfinite(there).all(), name


@pytest.mark.parametrize(
    "given",
    [
        {"precision": "bf16"},
        {"precision": "fp16", "clip": 1.0},
        {"precision": "fp16", "optimizer": "sgd"},
        {"tf32": True, "accumulate": 3},
    ],
)
def test_precision_and_pieces(given, accelerator, inside_steps, training, image_data):
    inside_steps(no_host_reads)
    there = training(image_data(32), device=accelerator.type, backbone=True, epochs=2, **given)
    assert torch.isfinite(scores(there)).all()


def test_stacks(accelerator, inside_steps, feature_data):
    recipes = [make_recipe({"method": "em", "epochs": 2, "seed": s}) for s in (0, 1)]
    task = make_task(feature_data(80), recipes[0])
    inside_steps(no_host_reads)
    on_device = [recipe.model_copy(update={"device": accelerator.type}) for recipe in recipes]
    for (here, _), (there, _) in zip(
        train_stacked(task, recipes), train_stacked(task, on_device), strict=True
    ):
        assert torch.allclose(here.predict(task.test), there.predict(task.test), atol=CLOSE)


def test_a_run_resumes_on_the_cpu(accelerator, training, feature_data):
    given = settings("role", epochs=2, batch_size=16)
    begun = training(feature_data(60), device=accelerator.type, **given)
    next(begun.epochs())
    tensors, plain = begun.state()
    resumed = training(feature_data(60), device="cpu", **given)
    resumed.load_state({key: value.cpu() for key, value in tensors.items()}, plain)
    whole = training(feature_data(60), device="cpu", **given)
    assert torch.allclose(scores(resumed), scores(whole), atol=CLOSE)
