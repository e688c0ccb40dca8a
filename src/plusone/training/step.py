"""One optimizer step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.optim import Optimizer

from plusone.errors import DivergedError, InputError
from plusone.methods.base import Method
from plusone.models.heads import Head, LinearHead
from plusone.parallel.processes import is_writer
from plusone.types import Batch, Clock, Outputs

if TYPE_CHECKING:
    from plusone.parallel.sharing import Sharing


Forward = Callable[[Tensor], Outputs]


def training_step(
    forward: Forward,
    head: Head,
    method: Method,
    optimizer: Optimizer,
    batch: Batch,
    clock: Clock,
    sharing: Sharing | None = None,
) -> dict[str, float]:
    """Minimises the sum of the method's loss terms a little; returns the value of each.

    Args:
        forward: The model; or `head` itself, if only the head is trained.
        head: The model's head.
        method: What is minimised.
        optimizer: Holds the parameters that may move.
        batch: The data.
        clock: Where training is.
        sharing: Where several processes train: what they do together. The views of the batch are
            then this process's rows.
    """
    views = batch.views
    inputs = torch.cat(views) if len(views) > 1 else views[0]
    by_hand = forward is head and type(head) is LinearHead
    division = sharing.begin_step(len(batch.index), len(views)) if sharing else None
    if by_hand:
        with torch.no_grad():
            own = forward(inputs)
        own.logits.requires_grad_()
    else:
        own = forward(inputs)
    outs = split_views(division.whole(own) if division else own, len(views))
    losses, penalties = method.loss(outs, batch, clock), method.penalty(head)
    terms = losses | penalties
    values = {name: term.item() for name, term in terms.items()}
    if not all(map(math.isfinite, values.values())):
        raise DivergedError(
            f"a loss term of {method.name or type(method).__name__} is not finite in epoch "
            f"{clock.epoch + 1}, batch {clock.step + 1}: {values}"
        )
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None
    counted = terms if is_writer() else losses  # what depends on the weights alone counts once
    torch.autograd.backward([term for term in counted.values() if term.requires_grad])
    if by_hand and isinstance(head, LinearHead) and own.logits.grad is not None:
        head.add_gradients(own.features, own.logits.grad)
    if sharing:
        sharing.add_gradients(optimizer, method)
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
