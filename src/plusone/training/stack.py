"""Many linear heads trained as one stack: several learning rates and seeds in one step.

On feature vectors a run is mostly the cost of calls, not of arithmetic. Runs that differ in
learning rate and seed only are stacked: R rates times S seeds, weights `[R, S, L, D]`. One product
gives the logits `[R, S, B, L]` of all runs, one call of `Method.loss` their losses `[R, S]`, and
the same `training_step` as everywhere minimises their sum. The runs of a seed see the same batches.
Each run ends where it would have ended alone, up to rounding.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import cast

import torch
from torch import Tensor, nn

from plusone.build import plan_of
from plusone.inputs.forward import ROWS
from plusone.inputs.loader import ArrayInputs, label_batches, visiting_order
from plusone.inputs.placement import StreamedInputs
from plusone.inputs.task import Part, Task
from plusone.methods import get_method
from plusone.models.heads import Head, LinearHead
from plusone.parallel.processes import world
from plusone.recipe import Recipe
from plusone.results import EpochRecord
from plusone.seeds import generator
from plusone.training.guards import check_finite, computing
from plusone.training.step import LossMeter, refusing_options, training_step
from plusone.training.trainer import Training
from plusone.types import Batch, Outputs

LOGITS = 1 << 25  # logits predicted at once, unless one run has more
VARIED = ("lr", "seed")  # settings in which the runs of a stack may differ


class AloneError(ValueError):
    """Runs of a recipe cannot be stacked; the message says why, in a few words."""


def check_settings(task: Task, recipe: Recipe) -> None:
    """Raises an `AloneError` where the data or the settings do not allow a stack."""
    alone, plan = get_method(recipe.method).alone, plan_of(recipe, images=task.images)
    vectors = not task.images and len(task.shape) == 1
    reasons = {
        "its inputs are not feature vectors": not vectors,
        "its features are not held in memory": not isinstance(task.train.inputs, ArrayInputs),
        alone or "": alone is not None,
        "it has a closed form": plan.solves,
        "it has several stages": len(plan.stages) > 1,
        f"its optimizer is {recipe.optimizer}": recipe.optimizer != "adam",
        "its learning rate has a schedule": recipe.schedule != "constant",
        "its weights are averaged": recipe.ema is not None,
        "it may stop early": recipe.patience is not None,
        "it has a mean for each group": recipe.group_weight > 0,
        "its loss is compiled": recipe.compile,
        "its gradients are clipped": recipe.clip is not None,
        "its probes are not those of a stack": recipe.probe == "full"
        or recipe.probe_on != "training",
        "several processes share its work": world()[1] > 1,
    }
    if reason := next((reason for reason, holds in reasons.items() if holds), None):
        raise AloneError(reason)


def check_model(training: Training) -> None:
    """Raises an `AloneError` where a model or its method has more than one linear layer."""
    method = training.method
    reasons = {
        "its head is not one linear layer": type(training.model.head) is not LinearHead,
        "it has parameters of its own": any(True for _ in method.parameters()),
        "it has memory of its own": not method.state_dict().keys() <= set(method.constants),
        "it has a teacher": method.teacher is not None,
    }
    if reason := next((reason for reason, holds in reasons.items() if holds), None):
        raise AloneError(reason)


def train_stacked(
    task: Task,
    recipes: Sequence[Recipe],
    on_epoch: Callable[[int], None] | None = None,
    *,
    head: Mapping[str, Tensor] | None = None,
    kind: type[Training] = Training,
) -> list[tuple[Training, list[EpochRecord]]]:
    """Trains all recipes at once.

    Args:
        task: The data.
        recipes: They may differ in their learning rate and seed.
        on_epoch: Called after every epoch with its number, from 1.
        head: Initial weights of the heads, instead of those that the seeds draw.
        kind: The class of the runs.

    Returns:
        The finished runs with their records, in the order of the recipes.

    Raises:
        AloneError: They cannot be stacked.
        ValueError: They differ in more.
    """
    if not recipes:
        return []
    first = recipes[0]
    for name in Recipe.model_fields:
        if name not in VARIED and any(getattr(r, name) != getattr(first, name) for r in recipes):
            raise ValueError(f"stacked recipes may differ in lr and seed, not in {name}")
    check_settings(task, first)
    runs = [kind(task, first)]
    check_model(runs[0])
    runs += [kind(task, recipe) for recipe in recipes[1:]]
    for training in runs:
        training.inputs.enter_space(runs[0].inputs.space)
        if head is not None:
            training.model.head.load_state_dict(head)
    stacks = [Stack(grid) for grid in _grids(runs)]
    records: dict[Training, list[EpochRecord]] = {training: [] for training in runs}
    for epoch in range(runs[0].stages[0].epochs):
        for stack in stacks:
            for training, record in zip(stack.runs, stack.epoch(), strict=True):
                records[training].append(record)
        if on_epoch is not None:
            on_epoch(epoch + 1)
    return list(records.items())


class StackedHead(Head):
    """Linear layers `[R, S, L, D]`: R learning rates, each with S seeds.

    The weights of a rate are one parameter, `[S, L, D]`, so that the optimizer can have a group
    for each rate.

    Args:
        heads: The layers to stack, `R x S`.
    """

    deterministic = True

    def __init__(self, heads: Sequence[Sequence[LinearHead]]) -> None:
        super().__init__()
        with torch.no_grad():
            self.weights = nn.ParameterList(
                torch.stack([head.weight for head in row]) for row in heads
            )
            self.biases = nn.ParameterList(
                torch.stack([head.bias for head in row]) for row in heads
            )

    @property
    def weight(self) -> Tensor:
        """`[R, S, L, D]`."""
        return torch.stack(list(self.weights))

    @property
    def bias(self) -> Tensor:
        """`[R, S, L]`."""
        return torch.stack(list(self.biases))

    def forward(self, features: Tensor) -> Outputs:
        """Logits `[R, S, B, L]` from features `[S, B, D]`."""
        logits = [
            torch.baddbmm(bias.unsqueeze(1), features, weight.transpose(1, 2))
            for weight, bias in zip(self.weights, self.biases, strict=True)
        ]
        return Outputs(torch.stack(logits), features)


class Stack:
    """Runs whose linear heads are trained as one.

    Args:
        grid: The runs: a row per learning rate, a column per seed.
    """

    def __init__(self, grid: list[list[Training]]) -> None:
        self.grid, self.seeds = grid, [training.recipe.seed for training in grid[0]]
        self.runs = [training for row in grid for training in row]
        first = self.runs[0]
        self.task, self.recipe, self.method = first.task, first.recipe, first.method
        self.head = StackedHead([[cast(LinearHead, run.model.head) for run in row] for row in grid])
        groups = []
        for row, weight, bias in zip(grid, self.head.weights, self.head.biases, strict=True):
            own = row[0].optimizer
            assert own is not None, "closed forms do not stack"
            groups.append({"params": [weight, bias], "lr": own.param_groups[0]["lr"]})
        self.optimizer = torch.optim.Adam(groups, weight_decay=self.recipe.weight_decay, fused=True)
        self.names = [
            f"{each.method} with lr {each.lr:g} and seed {each.seed}"
            for each in (training.recipe for training in self.runs)
        ]

    def epoch(self) -> list[EpochRecord]:
        """Trains and evaluates all runs for one epoch."""
        started, clock = time.perf_counter(), self.runs[0].clock()
        with computing(self.runs[0], self.head):
            losses = self._train()
            self._store()
            train, val = self._logits(self.task.train), self._logits(self.task.val)
            with torch.no_grad():
                for number, training in enumerate(self.runs):
                    training.method.after_epoch(clock, partial(train, number))
            validations = [
                training.validated(val(number)) for number, training in enumerate(self.runs)
            ]
            probes = [run.probing(run, partial(train, row)) for row, run in enumerate(self.runs)]
        records = [
            training.close_epoch(terms, (validation, "raw", training.model), probe, started)
            for training, terms, validation, probe in zip(
                self.runs, losses, validations, probes, strict=True
            )
        ]
        seconds = (time.perf_counter() - started) / len(records)
        return [record.model_copy(update={"seconds": seconds}) for record in records]

    @torch.no_grad()
    def _store(self) -> None:
        """Copies the weights of the stack to the runs they belong to, and checks them."""
        for row, weights, biases in zip(
            self.grid, self.head.weights, self.head.biases, strict=True
        ):
            for place, training in enumerate(row):
                layer = cast(LinearHead, training.model.head)
                layer.weight.copy_(weights[place])
                layer.bias.copy_(biases[place])
                check_finite(training)

    def _train(self) -> list[dict[str, float]]:
        """One pass over the training items; returns the mean loss terms of each run."""
        first = self.runs[0]
        meter = LossMeter(self.names, first.epoch + 1)
        shape = (len(self.grid), len(self.seeds))
        for step, batch in enumerate(self._batches()):
            clock = first.clock(step)
            with refusing_options(self.recipe.method, clock):
                terms = training_step(
                    self.head,
                    self.head,
                    self.method,
                    self.optimizer,
                    batch,
                    clock,
                    weigh=first.weighs,
                    missed=first.missed,
                )
            for name, term in terms.items():
                if term.shape != shape:
                    raise ValueError(
                        f"the loss term {name} of {self.recipe.method} has the shape "
                        f"{tuple(term.shape)} where each run must have its own {shape}; say in its "
                        "INFO why it is trained alone"
                    )
            meter.add(terms)
        return meter.means()

    def _batches(self) -> Iterator[Batch]:
        """Batches of every seed, side by side: views `[S, B, D]`, labels `[R, S, B, L]`."""
        items, first, size = self.task.train, self.runs[0], self.recipe.batch_size
        orders = torch.stack(
            [
                visiting_order(
                    len(items), items.weights, generator(seed, "order", first.stage, first.epoch)
                )
                for seed in self.seeds
            ]
        )
        indices = torch.split(orders, size, dim=1)
        order, rows = torch.cat([index.flatten() for index in indices]), len(self.seeds) * size
        inputs, _, _ = first.inputs.forward(items, first.model)
        views = inputs.batches(order, rows, ("weak",), 0)
        labels = label_batches(items.observed, order, rows, first.device)
        n_views, rates = len(self.method.views), len(self.grid)
        indices = torch.split(orders.to(first.device), size, dim=1)
        for index, (x,), observed in zip(indices, views, labels, strict=True):
            features = x.view(*index.shape, -1)
            each = observed.view(*index.shape, -1).expand(rates, -1, -1, -1)
            yield Batch((features,) * n_views, each, index)

    def _logits(self, part: Part) -> Callable[[int], Tensor]:
        """A function from the number of a run to its logits `[N, L]` under the present weights."""
        inputs, _, _ = self.runs[0].inputs.forward(part, self.runs[0].model)
        if isinstance(inputs, StreamedInputs):  # features larger than the device
            inputs = inputs.inputs
        assert isinstance(inputs, ArrayInputs)
        x = inputs.x
        weights, biases = self.head.weight.detach().flatten(0, 1), self.head.bias.detach()
        _, n_classes, dim = weights.shape
        biases = biases.view(-1, n_classes)
        width = max(1, LOGITS // (len(x) * n_classes))  # runs

        @lru_cache(maxsize=1)
        def block(number: int) -> Tensor:
            runs = slice(number * width, (number + 1) * width)
            weight, bias = weights[runs].reshape(-1, dim), biases[runs].flatten()
            logits = torch.empty(len(x), len(bias))
            for start in range(0, len(x), ROWS["features"]):
                rows = slice(start, start + ROWS["features"])
                logits[rows] = torch.addmm(bias, x[rows].to(weight), weight.t())
            return logits.view(len(x), -1, n_classes)

        return lambda run: block(run // width)[:, run % width].contiguous()


def _grids(runs: Sequence[Training]) -> list[list[list[Training]]]:
    """Runs in full grids of rates and seeds, as few as possible.

    Seeds that have the same rates share a grid.
    """
    by_seed: dict[int, list[Training]] = defaultdict(list)
    for training in runs:
        by_seed[training.recipe.seed].append(training)
    by_rates: dict[tuple[float, ...], list[list[Training]]] = defaultdict(list)
    for column in by_seed.values():
        column.sort(key=lambda training: training.recipe.lr)
        by_rates[tuple(training.recipe.lr for training in column)].append(column)
    return [[list(row) for row in zip(*columns, strict=True)] for columns in by_rates.values()]
