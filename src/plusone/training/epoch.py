"""One pass over the training items, naming no method."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from plusone.models.freezing import freeze_statistics
from plusone.schedules import one_cycle
from plusone.seeds import derive, generator, seeded
from plusone.training.loader import ArrayInputs, ahead, label_batches, visiting_order
from plusone.training.step import blaming_options, split_views, training_step
from plusone.types import Batch, Clock, Outputs

if TYPE_CHECKING:
    from plusone.training.trainer import Training


def train_epoch(training: Training, clock: Clock) -> dict[str, float]:
    """Trains for one epoch; returns the mean of each loss term."""
    task, recipe, method = training.task, training.recipe, training.method
    place = (clock.stage, clock.epoch)
    draw = generator(recipe.seed, "order", *place)
    order = visiting_order(len(task.train), task.train.weights, draw)
    inputs, _, forward = training.forward(task.train, training.model)
    wanted = (order, recipe.batch_size, method.views, derive(recipe.seed, "views", *place) >> 1)
    sharing = training.sharing
    views = sharing.batches(inputs, *wanted) if sharing else inputs.batches(*wanted)
    if "strong" in method.views and isinstance(inputs, ArrayInputs) and inputs.x.ndim == 4:
        views = ahead(views)  # files have processes of their own; other views cost next to nothing
    labels = label_batches(task.train.observed, order, recipe.batch_size)
    clock = replace(clock, steps=math.ceil(len(order) / recipe.batch_size))
    sums: dict[str, float] = {}
    training.model.train()
    if training.keeps_backbone:
        training.model.backbone.eval()
    if task.images:
        freeze_statistics(training.model.backbone, recipe.freeze, norm=recipe.freeze_norm)
    with seeded(recipe.seed, "dropout", *place):
        for step, (view, observed) in enumerate(zip(views, labels, strict=True)):
            index = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
            clock = replace(clock, step=step)
            _set_rates(training, clock)
            batch = Batch(view, observed, index, _teach(training, view, len(index)))
            with blaming_options(recipe.method, clock):
                values = training_step(
                    forward, training.model.head, method, training.optimizer, batch, clock, sharing
                )
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + value
            for average in training.averages.values():
                average.update(training.model)
            if training.on_step is not None:
                training.on_step(clock)
    with torch.no_grad():
        method.after_epoch(clock, training.train_logits)
    return {name: total / clock.steps for name, total in sums.items()}


def _set_rates(training: Training, clock: Clock) -> None:
    """Learning rates of this step, if the recipe has a schedule."""
    if training.recipe.schedule == "one_cycle":
        done = (clock.epoch * clock.steps + clock.step) / (clock.epochs * clock.steps)
        groups = training.optimizer.param_groups
        for group, rate in zip(groups, training.rates, strict=True):
            group["lr"] = rate * one_cycle(done)


def _teach(training: Training, views: tuple[Tensor, ...], items: int) -> tuple[Outputs, ...]:
    """What the averaged model says about each view of the batch, for methods with a teacher."""
    if "teacher" not in training.averages:
        return ()
    teacher = training.averages["teacher"].model
    forward = training.forward(training.task.train, teacher)[2]
    with torch.no_grad():
        said = forward(torch.cat(views))
        if training.sharing:
            said = training.sharing.begin_step(items, len(views)).whole(said)
        return split_views(said, len(views))
