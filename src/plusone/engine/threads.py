"""How many threads torch should use."""

from __future__ import annotations

import math

import torch

from plusone.engine.task import Task
from plusone.recipe import Recipe

SMALL_STEP = 1 << 24


def use_suitable_threads(task: Task, recipe: Recipe) -> None:
    """Sets torch's threads for this process.

    The recipe's number wins. Otherwise steps with little arithmetic (a linear layer on a small
    batch) run on one thread: handing such work between threads costs more than it brings, and far
    more when other processes want the cores.
    """
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    elif not task.images:
        work = recipe.batch_size * math.prod(task.shape) * len(task.classes)
        if work < SMALL_STEP:
            torch.set_num_threads(1)
