"""What a device or a run cannot do, said in a sentence: precision, memory, finite numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import nn

from plusone.device import allowing_tf32, autocasts, is_out_of_memory, resolve
from plusone.errors import DivergedError, InputError, RunError
from plusone.models.backbones import checkpoint_activations
from plusone.models.classifier import Classifier
from plusone.parallel.processes import check_device, world
from plusone.recipe import Recipe

if TYPE_CHECKING:
    from plusone.training.trainer import Training

SMALL_STEP = 1 << 24  # multiplications
SMALLEST_SCALE = 2.0**-24  # of a loss in float16; 1 / 2**40 of the first one


def check_settings(
    recipe: Recipe, device: torch.device, model: Classifier, *, images: bool
) -> None:
    """Refuses settings that this device, backbone or number of processes does not have."""
    if world()[1] > 1:
        check_device(device)
    if images and not autocasts(device, recipe.precision):
        raise InputError(f"{recipe.precision} is not supported on {device}; use float32")
    if images and recipe.checkpoint_activations:
        checkpoint_activations(model.backbone)


@contextmanager
def computing(training: Training, head: nn.Module | None = None) -> Iterator[None]:
    """Threads and TF32 as the recipe has them, and a sentence where memory does not suffice.

    Args:
        training: The run.
        head: What the steps inside the block train, where it is a head on features alone.
    """
    recipe, work = training.recipe, None
    if head is not None:  # multiplications of one step, roughly
        work = recipe.batch_size * sum(weight.numel() for weight in head.parameters())
    try:
        with suitable_threads(work, recipe.threads), allowing_tf32(training.device, recipe.tf32):
            yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise RunError(_out_of_memory(training)) from None


@contextmanager
def suitable_threads(work: int | None, requested: int | None) -> Iterator[None]:
    """Sets torch's number of threads inside the block.

    Small steps (a linear layer on a small batch) run on one thread: dividing them costs more than
    it saves, and far more when other processes use the cores.

    Args:
        work: Multiplications of one step, roughly; None where they are many.
        requested: The number in the recipe; it takes precedence.
    """
    before = torch.get_num_threads()
    threads = requested or (1 if work is not None and work < SMALL_STEP else before)
    try:
        if threads != before:
            torch.set_num_threads(threads)
        yield
    finally:
        if threads != before:
            torch.set_num_threads(before)


def _out_of_memory(training: Training) -> str:
    """What did not fit into the memory of the device, and what to change."""
    recipe, images = training.recipe, training.task.images
    pieces = f" in {recipe.accumulate} pieces" if images and recipe.accumulate > 1 else ""
    size = f", images of {training.task.shape[-1]} pixels in {recipe.precision}" if images else ""
    advice = {
        "a smaller batch_size": recipe.batch_size > 1,
        f"accumulate = {2 * recipe.accumulate} (the same batch in smaller pieces)": (
            images and recipe.accumulate < recipe.batch_size // world()[1]
        ),
        "precision = bf16": images and recipe.precision == "float32",
        "checkpoint_activations = true": images and not recipe.checkpoint_activations,
        "a smaller image_size": images,
        "memory = host": bool(training.method.per_item) and recipe.memory == "device",
    }
    listed = ", ".join(text for text, helps in advice.items() if helps)
    return (
        f"{training.device} has no memory left: {recipe.method} with batches of "
        f"{recipe.batch_size}{pieces}{size}; try {listed or 'device = cpu'}"
    )


@contextmanager
def restoring_best(training: Training) -> Iterator[None]:
    """Puts the best weights so far, if there are any, in place where the block diverges."""
    try:
        yield
    except DivergedError as error:
        if (best := training.best or training.before) is not None:
            best.restore(training.model, training.method, training.groups)
        if training.gradients.scaler is None:
            raise
        hint = "fp16 has no numbers above 65,504; precision = bf16 has"
        raise DivergedError(f"{error.what} ({hint})") from None


def check_finite(training: Training) -> None:
    """Refuses an epoch with weights that are not finite, or gradients at any scale in float16.

    A finite loss can have a gradient that is not.
    """
    for name, weight in training.model.state_dict().items():
        if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
            raise DivergedError(
                f"the weights {name} are not finite after epoch {training.epoch + 1} of "
                f"{training.recipe.method}"
            )
    scaler = training.gradients.scaler
    if scaler is not None and scaler.get_scale() < SMALLEST_SCALE:
        raise DivergedError(
            f"the gradients of {training.recipe.method} are not finite in epoch "
            f"{training.epoch + 1}, at any scale of the loss"
        )


def compiler_problem(device: str) -> str | None:
    """Why `torch.compile` does not work on the recipe's device, in a sentence; None if it does."""
    return _compiler_problem(resolve(device))


@cache  # behind a function, whose signature mypy checks
def _compiler_problem(device: torch.device) -> str | None:
    try:
        torch.compile(lambda x: torch.exp(x) + 1)(torch.ones(2, device=device))
    except Exception as error:  # whatever a missing or broken compiler raises
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"torch.compile does not work on {device}, so nothing is compiled ({first})"
    return None
