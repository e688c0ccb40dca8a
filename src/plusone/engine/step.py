"""One optimizer step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

from plusone.errors import InputError, RunError
from plusone.methods.base import Method
from plusone.models.heads import Head, LinearHead
from plusone.types import Batch, Clock, Outputs

Forward = Callable[[Tensor], Outputs]


def training_step(
    forward: Forward, head: Head, method: Method, optimizer: Optimizer, batch: Batch, clock: Clock
) -> dict[str, float]:
    """Minimises the sum of the method's loss terms a little; returns the value of each.

    Args:
        forward: The model; or `head` itself, if only the head is trained.
        head: The model's head.
        method: What is minimised.
        optimizer: Holds the parameters that may move.
        batch: The data.
        clock: Where training is.
    """
    views = batch.views
    inputs = torch.cat(views) if len(views) > 1 else views[0]
    by_hand = forward is head and type(head) is LinearHead
    if by_hand:
        with torch.no_grad():
            together = forward(inputs)
        together.logits.requires_grad_()
    else:
        together = forward(inputs)
    outs = split_views(together, len(views))
    terms = method.loss(outs, batch, clock) | method.penalty(head)
    values = {name: term.item() for name, term in terms.items()}
    if not all(map(math.isfinite, values.values())):
        raise RunError(
            f"a loss term of {method.name or type(method).__name__} is not finite in epoch "
            f"{clock.epoch + 1}, batch {clock.step + 1}: {values}; a smaller lr may help"
        )
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None
    torch.autograd.backward([term for term in terms.values() if term.requires_grad])
    if by_hand and isinstance(head, LinearHead) and together.logits.grad is not None:
        head.add_gradients(together.features, together.logits.grad)
    optimizer.step()
    with torch.no_grad():
        method.after_step(outs, batch, clock)
    return values


@contextmanager
def blaming_options(method: str, clock: Clock) -> Iterator[None]:
    """Blames a bad value in the first step on the method's options.

    The first step is where a loss sees its options for the first time.
    """
    try:
        yield
    except ValueError as error:
        if clock.epoch or clock.step or isinstance(error, InputError):
            raise
        raise InputError(f"the options of {method}: {error}") from error


def split_views(together: Outputs, n_views: int) -> tuple[Outputs, ...]:
    """One `Outputs` per view from the outputs of all views on top of each other."""
    if n_views == 1:
        return (together,)
    parts = (together.logits, together.features, together.embeddings, together.maps)
    chunks = [[None] * n_views if x is None else torch.chunk(x, n_views) for x in parts]
    return tuple(Outputs(*view) for view in zip(*chunks, strict=True))
