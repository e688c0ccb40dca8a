"""One pass over feature vectors with a linear head, with as few calls as its arithmetic needs.

In small batches one step costs more in calls than in arithmetic: automatic differentiation, a
reduction and a check of every value, the optimizer's bookkeeping. Here a step is one product for
the logits, the loss's derivative (`plusone.methods.slopes`), one product for the gradient, and the
fused kernel of Adam. `suits` is the rule for when this way is taken; the result is that of
`plusone.training.epoch` up to rounding, the same bit for bit whenever repeated or resumed.

Loss values are looked at after many steps (`Ledger`). If one was not finite, the weights
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from plusone.errors import DivergedError
from plusone.methods.base import Method
from plusone.methods.slopes import slopes_of
from plusone.models.heads import LinearHead
from plusone.seeds import generator, seeded
from plusone.training.adam import LeanAdam
from plusone.training.loader import label_batches, visiting_order
from plusone.training.step import blaming_options
from plusone.types import Batch, Clock, Outputs

if TYPE_CHECKING:
    from plusone.training.trainer import Training


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


BLOCK = 1 << 18  # entries that are kept


class Ledger:
    """Adds up the loss terms of an epoch, of one training or of several that step together.

    Args:
        trainings: The name of each, for messages.
        epoch: The epoch, from 1, for messages.
        at_once: Look at every step by itself, for methods whose memory must stay finite.
    """

    def __init__(self, trainings: Sequence[str], epoch: int, *, at_once: bool = False) -> None:
        self.trainings, self.epoch = trainings, epoch
        self.steps = 0  # that were looked at
        self._largest = 0 if at_once else BLOCK
        self._sums: dict[str, list[float]] = {}
        self._kept: list[tuple[Mapping[str, Tensor], Mapping[str, float]]] = []
        self._entries = 0

    def add(self, terms: Mapping[str, Tensor], factors: Mapping[str, float]) -> None:
        """Enters the terms of the next step.

        Args:
            terms: Of one training a table `[B, L]` or a scalar each; of several that have S orders
                of the items `[S, B, trainings / S, L]` or `[trainings]`. Tables are added up.
            factors: What each term is multiplied with; 1 where none is given.

        Raises:
            DivergedError: A term of this or an earlier step is not finite.
        """
        self._kept.append((terms, factors))
        self._entries += sum(term.numel() for term in terms.values())
        if self._entries >= self._largest:
            self._look()

    def means(self) -> list[dict[str, float]]:
        """The mean of each term over the steps, for each training.

        Raises:
            DivergedError: A term of a step is not finite.
        """
        self._look()
        return [
            {name: sums[place] / self.steps for name, sums in self._sums.items()}
            for place in range(len(self.trainings))
        ]

    def _look(self) -> None:
        """Adds up what was kept."""
        if not self._kept:
            return
        found = {name: self._values(name) for name in self._kept[0][0]}
        if not all(bool(values.isfinite().all()) for values in found.values()):
            self._blame(found)
        for name, values in found.items():
            old = self._sums.get(name, [0.0] * len(self.trainings))
            new = values.sum(0).tolist()
            self._sums[name] = [one + other for one, other in zip(old, new, strict=True)]
        self.steps += len(self._kept)
        self._kept, self._entries = [], 0

    def _values(self, name: str) -> Tensor:
        """Values of a term, a row per kept step: float64 `[n, trainings]`."""
        tables = [terms[name] for terms, _ in self._kept]
        factors = [factors.get(name, 1.0) for _, factors in self._kept]
        # Only the last batch of an epoch can be smaller than the others.
        same = len(tables) - (tables[-1].shape != tables[0].shape)
        parts = [part for part in (tables[:same], tables[same:]) if part]
        sums = torch.cat([_added_up(torch.stack(part)) for part in parts]).double()
        return sums * torch.tensor(factors, dtype=torch.float64).unsqueeze(1)

    def _blame(self, found: Mapping[str, Tensor]) -> None:
        """Names the first step, and a training in it, that is not finite."""
        bad = torch.stack([~values.isfinite() for values in found.values()]).any(0)
        step, training = bad.nonzero()[0].tolist()
        values = {name: values[step, training].item() for name, values in found.items()}
        raise DivergedError(
            f"a loss term of {self.trainings[training]} is not finite in epoch {self.epoch}, "
            f"batch {self.steps + step + 1}: {values}"
        )


def _added_up(terms: Tensor) -> Tensor:
    """The terms of n steps, as `Ledger.add` takes them, per training: `[n, trainings]`."""
    if terms.ndim == 5:
        return terms.sum((2, 4)).flatten(1)
    return terms.sum((1, 2)).unsqueeze(1) if terms.ndim == 3 else terms.reshape(len(terms), -1)
