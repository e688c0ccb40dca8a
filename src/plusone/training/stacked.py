"""Many trainings of linear heads at once: stacked weights, one batched computation per step.

On feature vectors one training is mostly the cost of calls, not of arithmetic. Here trainings that
differ in their learning rate and seed only are put on top of each other: one product gives the
logits of all of them, and one their gradients. The trainings of a seed see the same batches, so a
step gathers one batch per seed. Each ends where it would have ended alone, up to rounding.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from plusone.methods import get_method
from plusone.methods.base import Method
from plusone.methods.slopes import Sloped
from plusone.models.heads import LinearHead
from plusone.parallel.processes import world
from plusone.recipe import Recipe
from plusone.results import EpochRecord
from plusone.seeds import generator
from plusone.training.adam import ONE, Moved, move
from plusone.training.build import build
from plusone.training.diverged import check_weights
from plusone.training.expected import expected
from plusone.training.linear_epoch import Ledger
from plusone.training.loader import ArrayInputs, Inputs, label_batches, visiting_order
from plusone.training.predict import ROWS
from plusone.training.step import blaming_options
from plusone.training.task import Task
from plusone.training.threads import suitable_threads
from plusone.training.trainer import Training
from plusone.types import Batch, Clock, Outputs, TrainLabels


class StackedAdam:
    """Moves stacked weights.

    Args:
        weights: Stacks of weights, `[n, ...]` each.
        grads: Their gradients, which are read at every step.
        rates: Learning rate of each of the n.
        weight_decay: As of `torch.optim.Adam`.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        grads: Sequence[Tensor],
        rates: Sequence[float],
        weight_decay: float,
    ) -> None:
        self.count = torch.zeros((), dtype=torch.float32)
        self.weight_decay = weight_decay
        moments = [[torch.zeros_like(weight) for weight in weights] for _ in range(2)]
        places = defaultdict(list)
        for place, rate in enumerate(rates):
            places[rate].append(place)
        self.groups: list[tuple[Moved, list[Tensor], float]] = []
        for rate, some in places.items():
            moved, slopes, means, squares = (
                [stack[place] for stack in stacks for place in some]
                for stacks in (weights, grads, *moments)
            )
            counts = [self.count] * len(moved)
            self.groups.append((Moved(moved, means, squares, counts), slopes, rate))

    def step(self) -> None:
        """Moves all weights once."""
        self.count.add_(ONE)
        for moved, slopes, rate in self.groups:
            move(moved, slopes, rate, weight_decay=self.weight_decay)


class OneByOne:
    """Each training's own loss, and one pass back through all of them."""

    def __init__(self, methods: list[list[Method]]) -> None:
        self.methods = methods

    def __call__(self, logits: Tensor, batch: Batch, clock: Clock) -> Sloped:
        leaves, terms = [], []
        with torch.enable_grad():
            for seed, row in enumerate(self.methods):
                own = of_seed(batch, seed, len(row[0].views))
                for place, method in enumerate(row):
                    leaf = logits[seed, :, place].contiguous().requires_grad_()
                    outs = (Outputs(leaf, own.views[0]),) * len(own.views)
                    leaves.append(leaf)
                    terms.append(method.loss(outs, own, clock))
        values = [term for each in terms for term in each.values() if term.requires_grad]
        slopes = torch.stack(torch.autograd.grad(values, leaves))
        found = {name: torch.stack([each[name].detach() for each in terms]) for name in terms[0]}
        by_seed = slopes.view(len(self.methods), -1, *slopes.shape[1:])
        return Sloped(found, {}, by_seed.transpose(1, 2), 1.0)


def of_seed(batch: Batch, seed: int, n_views: int) -> Batch:
    """One seed's part of a batch; feature vectors look the same in every view."""
    views = (batch.views[0][seed],) * n_views
    return Batch(views, batch.observed[seed], batch.index[seed])


LOGITS = 1 << 25  # logits predicted at once, unless one training has more


def why_alone(task: Task, recipe: Recipe) -> str | None:
    """Why this training cannot be stacked with others, in a few words; None if it can."""
    if task.images or len(task.shape) != 1:
        return "its inputs are not feature vectors"
    if not isinstance(task.train.inputs, ArrayInputs):
        return "its features are not held in memory"
    labels = TrainLabels(task.train.observed, expected(recipe, task).k, places=False)
    model, method = build(recipe, labels, task.shape, images=False)
    phases = get_method(recipe.method).phases
    reasons = {
        "its head is not one linear layer": type(model.head) is not LinearHead,
        "it learns parameters of its own": any(w.requires_grad for w in method.parameters()),
        "it has a teacher": method.teacher is not None,
        "it has several stages": len(recipe.resolved_stages(images=False, phases=phases)) > 1,
        f"its optimizer is {recipe.optimizer}": recipe.optimizer != "adam",
        "its learning rate has a schedule": recipe.schedule != "constant",
        "its weights are averaged": recipe.ema is not None,
        "it may stop early": recipe.patience is not None,
        "several processes share its work": world()[1] > 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def train_stacked(
    task: Task,
    recipes: Sequence[Recipe],
    on_epoch: Callable[[int], None] | None = None,
    *,
    kind: type[Training] = Training,
) -> list[tuple[Training, list[EpochRecord]]]:
    """Trains recipes that differ in `lr` and `seed` only, together.

    Args:
        task: The data.
        recipes: One per training.
        on_epoch: Called with the number of each finished epoch, from 1.
        kind: The class of the trainings, for whoever wants to watch them.

    Returns:
        For each recipe the finished training, with its best weights in place, and its records.
        The seconds of a record are an equal share of what the stack took.

    Raises:
        ValueError: The recipes differ in something else, or cannot be stacked (`why_alone`).
        DivergedError: A loss term or a weight is not finite.
    """
    for name in Recipe.model_fields.keys() - {"lr", "seed"}:
        if any(getattr(recipe, name) != getattr(recipes[0], name) for recipe in recipes):
            raise ValueError(f"stacked recipes may differ in lr and seed, but not in {name}")
    if recipes and (reason := why_alone(task, recipes[0])):
        raise ValueError(f"{recipes[0].method} cannot be stacked: {reason}")
    trainings = [kind(task, recipe) for recipe in recipes]
    records: dict[Training, list[EpochRecord]] = {training: [] for training in trainings}
    stacks = [Stack(rows) for rows in _rectangles(trainings)]
    while not all(training.done for training in trainings):
        for stack in stacks:
            for training, record in zip(stack.trainings, stack.epoch(), strict=True):
                records[training].append(record)
        if on_epoch is not None:
            on_epoch(trainings[0].epoch)
    for stack in stacks:
        stack.release()
    return list(records.items())


class Stack:
    """Trainings with stacked weights.

    The weights of their heads become views into one tensor, so whatever else a training does with
    its model still works.

    Args:
        rows: The trainings, one row per seed: `S x R`.
    """

    def __init__(self, rows: list[list[Training]]) -> None:
        self.rows, self.trainings = rows, [training for row in rows for training in row]
        first = self.trainings[0]
        self.task, self.recipe = first.task, first.recipe
        self.layers = [_linear(training) for training in self.trainings]
        self.weight = torch.stack([layer.weight.detach() for layer in self.layers])
        self.bias = torch.stack([layer.bias.detach() for layer in self.layers])
        self.weight_grad, self.bias_grad = map(torch.zeros_like, (self.weight, self.bias))
        for place, layer in enumerate(self.layers):
            layer.weight.data, layer.weight.grad = self.weight[place], self.weight_grad[place]
            layer.bias.data, layer.bias.grad = self.bias[place], self.bias_grad[place]
        flat, dim = (len(rows), 1, -1), self.weight.shape[2]
        self.by_seed = (  # `[S, R * L, D]` and `[S, 1, R * L]`
            self.weight.view(len(rows), -1, dim),
            self.bias.view(flat),
            self.weight_grad.view(len(rows), -1, dim),
            self.bias_grad.view(flat),
        )
        self.ones = self.bias.new_ones(len(rows), 1, self.recipe.batch_size)
        rates = [training.optimizer.param_groups[0]["lr"] for training in self.trainings]
        stacks, grads = (self.weight, self.bias), (self.weight_grad, self.bias_grad)
        for training in self.trainings:
            training.optimizer.state.clear()  # its moments are in the joint optimizer
        self.optimizer = StackedAdam(stacks, grads, rates, self.recipe.weight_decay)
        self.loss = OneByOne([[training.method for training in row] for row in rows])
        self.names = [
            f"{each.method} with lr {each.lr:g} and seed {each.seed}"
            for each in (training.recipe for training in self.trainings)
        ]
        self.penalised = type(first.method).penalty is not Method.penalty
        self.remembers = type(first.method).after_step is not Method.after_step

    def epoch(self) -> list[EpochRecord]:
        """Trains and evaluates all for one epoch."""
        started, first = time.perf_counter(), self.trainings[0]
        steps = math.ceil(len(self.task.train) / self.recipe.batch_size)
        clock = Clock(0, first.epoch, first.stages[0].epochs, steps - 1, steps)
        with suitable_threads(self.recipe.batch_size * self.weight.numel(), self.recipe.threads):
            losses = self._train(clock)
            for training in self.trainings:
                check_weights(training, clock.epoch + 1)
            train, val = self._logits(self.task.train.inputs), self._logits(self.task.val.inputs)
            with torch.no_grad():
                for place, training in enumerate(self.trainings):
                    training.method.after_epoch(clock, partial(train, place))
            said = [training.judged(val(place)) for place, training in enumerate(self.trainings)]
            probes = [
                each.probe(partial(train, place)) for place, each in enumerate(self.trainings)
            ]
        records = [
            training.close_epoch(terms, (judgement, "raw", training.model), probe, started)
            for training, terms, judgement, probe in zip(
                self.trainings, losses, said, probes, strict=True
            )
        ]
        seconds = (time.perf_counter() - started) / len(records)
        return [record.model_copy(update={"seconds": seconds}) for record in records]

    def release(self) -> None:
        """Gives every training weights of its own."""
        for layer in self.layers:
            for weight in (layer.weight, layer.bias):
                weight.data, weight.grad = weight.detach().clone(), None

    @torch.no_grad()
    def _train(self, clock: Clock) -> list[dict[str, float]]:
        """One pass over the training items; returns the mean loss terms of each training."""
        items, place = self.task.train, (clock.stage, clock.epoch)
        draws = [generator(row[0].recipe.seed, "order", *place) for row in self.rows]
        orders = torch.stack([visiting_order(len(items), items.weights, draw) for draw in draws])
        parts = torch.split(orders, self.recipe.batch_size, dim=1)
        order, size = torch.cat([part.flatten() for part in parts]), len(parts[0].flatten())
        views = items.inputs.batches(order, size, ("weak",), 0)
        labels, unblamed = label_batches(items.observed, order, size), nullcontext()
        ledger = Ledger(self.names, clock.epoch + 1, at_once=self.remembers)
        for step, (index, (x,), observed) in enumerate(zip(parts, views, labels, strict=True)):
            shape = (*index.shape, -1)
            batch = Batch((x.view(shape),), observed.view(shape), index)
            now = Clock(clock.stage, clock.epoch, clock.epochs, step, clock.steps)
            with unblamed if step else blaming_options(self.recipe.method, now):
                self._step(batch, now, ledger)
        return ledger.means()

    def _step(self, batch: Batch, clock: Clock, ledger: Ledger) -> None:
        """One optimizer step of all; the views are `[S, B, D]`."""
        (x,), (weight, bias, weight_grad, bias_grad) = batch.views, self.by_seed
        flat = torch.baddbmm(bias, x, weight.transpose(1, 2))
        logits = flat.view(*x.shape[:2], -1, self.bias.shape[1])
        terms, factors, slope, scale = self.loss(logits, batch, clock)
        slope = slope.reshape(flat.shape)
        back = slope.transpose(1, 2)
        torch.baddbmm(weight_grad, back, x, beta=0, alpha=scale, out=weight_grad)
        ones = self.ones[:, :, : x.shape[1]]
        torch.baddbmm(bias_grad, ones, slope, beta=0, alpha=scale, out=bias_grad)
        if self.penalised:
            terms = terms | self._add_penalties()
        ledger.add(terms, factors)
        self.optimizer.step()
        if self.remembers:
            self._remember(logits, batch, clock)

    def _add_penalties(self) -> dict[str, Tensor]:
        """Adds the gradients of what the weights cost; returns the terms `[trainings]`."""
        with torch.enable_grad():
            terms = [training.method.penalty(training.model.head) for training in self.trainings]
        torch.autograd.backward([term for each in terms for term in each.values()])
        return {name: torch.stack([each[name].detach() for each in terms]) for name in terms[0]}

    def _remember(self, logits: Tensor, batch: Batch, clock: Clock) -> None:
        for seed, row in enumerate(self.rows):
            own = of_seed(batch, seed, len(row[0].method.views))
            for place, training in enumerate(row):
                out = Outputs(logits[seed, :, place], own.views[0])
                training.method.after_step((out,) * len(own.views), own, clock)

    def _logits(self, inputs: Inputs) -> Callable[[int], Tensor]:
        """A function from a training's place to its logits `[N, L]` under the present weights."""
        assert isinstance(inputs, ArrayInputs)
        x, (_, n_classes, dim) = inputs.x, self.weight.shape
        width = max(1, LOGITS // (len(x) * n_classes))  # trainings

        @lru_cache(maxsize=1)
        def block(number: int) -> Tensor:
            these = slice(number * width, (number + 1) * width)
            weight, bias = self.weight[these].view(-1, dim), self.bias[these].flatten()
            found = torch.empty(len(x), len(bias))
            for start in range(0, len(x), ROWS["features"]):
                rows = slice(start, start + ROWS["features"])
                torch.addmm(bias, x[rows].to(weight.dtype), weight.t(), out=found[rows])
            return found.view(len(x), -1, n_classes)

        return lambda place: block(place // width)[:, place % width].contiguous()


def _rectangles(trainings: Sequence[Training]) -> list[list[list[Training]]]:
    """Trainings in one row per seed; rows of equal length are put together."""
    rows: dict[int, list[Training]] = defaultdict(list)
    for training in trainings:
        rows[training.recipe.seed].append(training)
    found: dict[int, list[list[Training]]] = defaultdict(list)
    for row in rows.values():
        found[len(row)].append(row)
    return list(found.values())


def _linear(training: Training) -> nn.Linear:
    assert isinstance(training.model.head, LinearHead)
    return training.model.head.linear
