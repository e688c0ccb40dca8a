"""The batches of an epoch, the same whenever it is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from plusone.inputs.loader import label_batches, visiting_order
from plusone.inputs.placement import owners_of
from plusone.seeds import derive, generator
from plusone.training.pieces import forward_views
from plusone.types import Batch, Outputs

if TYPE_CHECKING:
    from plusone.training.trainer import Training


@dataclass(frozen=True)
class Begun:
    """An epoch whose first batches may be under way.

    Args:
        epoch: Its stage and number, from 0.
        order: The items in the order in which they are visited, int64 `[N]`.
        views: The views of each batch.
        boxes: The part of each item that its views show; None if they show all.
    """

    epoch: tuple[int, int]
    order: Tensor
    views: Iterator[tuple[Tensor, ...]]
    boxes: Tensor | None


def begin(training: Training, epoch: int) -> Begun:
    """Begins an epoch of the current stage: workers prepare its first batches from now on."""
    train, recipe, views = training.task.train, training.recipe, training.method.views
    draw = generator(recipe.seed, "order", training.stage, epoch)
    order = visiting_order(len(train), train.weights, draw)
    inputs, _, _ = training.inputs.forward(train, training.model)
    seed = derive(recipe.seed, "views", training.stage, epoch) >> 1
    arguments = (order, recipe.batch_size, views, seed)
    if training.ranks:
        batches = training.ranks.batches(inputs, *arguments, owners_of(inputs, order))
    else:
        batches = inputs.batches(*arguments)
    boxes = inputs.boxes(views, len(order), seed)
    return Begun((training.stage, epoch), order, batches, boxes)


def batches_of(training: Training, begun: Begun | None = None) -> Iterator[Batch]:
    """The batches of the current epoch.

    Args:
        training: The run.
        begun: The epoch, if it was begun before.
    """
    if begun is None or begun.epoch != (training.stage, training.epoch):
        begun = begin(training, training.epoch)
    order, size, device = begun.order, training.recipe.batch_size, training.device
    labels = label_batches(training.task.train.observed, order, size, device)
    indices = torch.split(order.to(device), size)
    shown = (
        torch.split(begun.boxes.to(device), size)
        if begun.boxes is not None
        else [None] * len(indices)
    )
    for view, observed, index, box in zip(begun.views, labels, indices, shown, strict=True):
        yield Batch(view, observed, index, _teach(training, view), box)


def _teach(training: Training, views: tuple[Tensor, ...]) -> tuple[Outputs, ...]:
    """Outputs of the averaged model for each view of a batch, for methods with a teacher."""
    if "teacher" not in training.averages:
        return ()
    _, _, forward = training.inputs.forward(training.task.train, training.averages["teacher"].model)
    with torch.no_grad():
        return forward_views(forward, views, training.gradients.pieces, training.ranks)
