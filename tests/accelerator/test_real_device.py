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


@pytest.mark.parametrize("kind", ["features", "images"])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_as_on_the_cpu(
    name, kind, accelerator, inside_steps, training, feature_data, image_data
):
    if kind == "features" and METHODS[name].inputs == "images":
        pytest.skip("it needs images")
    if kind == "features":
        data, given = feature_data(60), settings(name, epochs=2, batch_size=16)
    else:  # dropout in the backbone draws on the device, so only that it trains is compared
        data, given = image_data(32), settings(name, epochs=2, backbone=True, ema=0.9)
    here = scores(training(data, device="cpu", **given))
    inside_steps(no_host_reads)
    there = scores(training(data, device=accelerator.type, **given))
    assert torch.isfinite(there).all()
    if kind == "features" and not hasattr(METHODS[name].options, "dropout"):  # in the head
        assert torch.allclose(here, there, atol=CLOSE)


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
