"""One pass over feature vectors with a linear head, with as few calls as its arithmetic needs.

In small batches one step costs more in calls than in arithmetic: automatic differentiation, a
reduction and a check of every value, the optimizer's bookkeeping. Here a step is one product for
the logits, the loss's derivative (`plusone.methods.slopes`), one product for the gradient, and the
fused kernel of Adam. `suits` is the rule for when this way is taken; the result is that of
`plusone.engine.epoch` up to rounding, and the same bit for bit whenever it is repeated or resumed.

Loss values are looked at after many steps (`plusone.engine.ledger`). If one was not finite, the
weights from before the epoch are put back.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from plusone.engine.adam import LeanAdam
from plusone.engine.labels import label_batches
from plusone.engine.ledger import Ledger
from plusone.engine.order import visiting_order
from plusone.engine.step import blaming_options
from plusone.errors import DivergedError
from plusone.methods.base import Method
from plusone.methods.slopes import slopes_of
from plusone.models.heads import LinearHead
from plusone.seeds import generator, seeded
from plusone.types import Batch, Clock, Outputs

if TYPE_CHECKING:
    from plusone.engine.training import Training


def suits(training: Training) -> bool:
    """Whether the present stage of a training can go this way.

    It trains one linear layer on feature vectors, in one process, by Adam at a constant rate, and
    nothing else: no parameters of the method, no averaged weights. The loss can be any.
    """
    head = training.model.head
    return (
        training.forward(training.task.train, training.model)[2] is head
        and type(head) is LinearHead
        and type(training.optimizer) is LeanAdam
        and not any(weight.requires_grad for weight in training.method.parameters())
        and not training.averages
        and training.recipe.schedule == "constant"
        and training.sharing is None
    )


def linear_epoch(training: Training, clock: Clock) -> dict[str, float]:
    """Trains for one epoch; returns the mean of each loss term.

    Raises:
        DivergedError: A loss term is not finite; the weights are those from before the epoch.
    """
    head = training.model.head
    before = {name: weight.clone() for name, weight in head.state_dict().items()}
    try:
        with torch.no_grad(), seeded(training.recipe.seed, "dropout", clock.stage, clock.epoch):
            return _train(training, clock)
    except DivergedError:
        head.load_state_dict(before)
        raise


def _train(training: Training, clock: Clock) -> dict[str, float]:
    task, recipe, method = training.task, training.recipe, training.method
    stage, epoch, epochs, size = clock.stage, clock.epoch, clock.epochs, recipe.batch_size
    draw = generator(recipe.seed, "order", stage, epoch)
    order = visiting_order(len(task.train), task.train.weights, draw)
    steps = math.ceil(len(order) / size)
    inputs, _, _ = training.forward(task.train, training.model)
    batches = zip(
        inputs.batches(order, size, ("plain",), 0),
        label_batches(task.train.observed, order, size),
        torch.split(order, size),
        strict=True,
    )
    head, optimizer = training.model.head, training.optimizer
    assert isinstance(head, LinearHead)
    assert isinstance(optimizer, LeanAdam)
    layer, slopes = _Layer(head.linear, size), slopes_of(method)
    penalised = type(method).penalty is not Method.penalty
    remembers = type(method).after_step is not Method.after_step
    ledger = Ledger([method.name or type(method).__name__], epoch + 1, at_once=remembers)
    blame = blaming_options(recipe.method, Clock(stage, epoch, epochs, 0, steps))
    unblamed = nullcontext()
    for step, ((x,), observed, index) in enumerate(batches):
        clock = Clock(stage, epoch, epochs, step, steps)
        batch = Batch((x,) * len(method.views), observed, index)
        logits = layer.logits(x)
        with unblamed if step else blame:
            terms, factors, slope, scale = slopes(logits, batch, clock)
        layer.set_gradients(x, slope, scale)
        if penalised:
            terms = terms | _add_penalties(method, head)
        ledger.add(terms, factors)
        optimizer.advance()
        if remembers:
            method.after_step((Outputs(logits, x),) * len(method.views), batch, clock)
        if training.on_step is not None:
            training.on_step(clock)
    (means,) = ledger.means()
    method.after_epoch(clock, training.train_logits)
    return means


class _Layer:
    """A linear layer whose gradients are set by hand, in place."""

    def __init__(self, linear: torch.nn.Linear, batch_size: int) -> None:
        weight, self.bias = linear.weight.detach(), linear.bias.detach()
        self.across = weight.t()
        self.weight_grad, self.bias_grad = torch.empty_like(weight), torch.empty_like(self.bias)
        linear.weight.grad, linear.bias.grad = self.weight_grad, self.bias_grad
        self.ones = weight.new_ones(batch_size)

    def logits(self, x: Tensor) -> Tensor:
        """`[B, L]` from `[B, D]`."""
        return torch.addmm(self.bias, x, self.across)

    def set_gradients(self, x: Tensor, slope: Tensor, scale: float) -> None:
        """Gradients of a loss whose derivative by the logits is `scale` times `slope`."""
        back = slope.t()
        torch.addmm(self.weight_grad, back, x, beta=0, alpha=scale, out=self.weight_grad)
        ones = self.ones[: len(x)] if len(x) < len(self.ones) else self.ones
        torch.addmv(self.bias_grad, back, ones, beta=0, alpha=scale, out=self.bias_grad)


def _add_penalties(method: Method, head: LinearHead) -> dict[str, Tensor]:
    """Adds the gradients of what the head's weights cost; returns the terms."""
    with torch.enable_grad():
        terms = method.penalty(head)
    torch.autograd.backward(list(terms.values()))
    return {name: term.detach() for name, term in terms.items()}
