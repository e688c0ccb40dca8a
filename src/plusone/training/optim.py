"""Optimizers from a recipe."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from plusone.device import device_of
from plusone.errors import InputError
from plusone.methods._base import Method
from plusone.models.classifier import Classifier
from plusone.recipe import Recipe
from plusone.types import Clock, Stage


def make_optimizer(model: Classifier, method: Method, recipe: Recipe, stage: Stage) -> Optimizer:
    """One group each for the backbone, the head and the method's own parameters.

    The head learns at `lr * head_lr_mult`, the method's parameters at `lr * lr_mult` of the
    method and without weight decay. What a stage does not train has no group. Tables of the
    method that have sparse gradients get a group of their own, marked `rows`: see `RowWise`.
    """
    frozen = stage.freeze_backbone or stage.inputs == "features"
    lr = stage.lr or recipe.lr
    groups = []
    if not frozen:
        groups.append(_group(model.backbone, lr, recipe.weight_decay))
    groups.append(_group(model.head, lr * recipe.head_lr_mult, recipe.weight_decay))
    own = _group(method, lr * method.lr_mult, 0.0)
    embeddings = (part for part in method.modules() if isinstance(part, nn.Embedding))
    sparse = (part.weight for part in embeddings if part.sparse and part.weight.requires_grad)
    tables = dict.fromkeys(sparse)  # in order
    groups.append(own | {"params": [weight for weight in own["params"] if weight not in tables]})
    groups.append(own | {"params": list(tables), "rows": True})
    groups = [group for group in groups if group["params"]]
    if recipe.optimizer == "sgd":
        if tables:
            raise InputError(
                f"the method {method.name} keeps a table that moves row by row (for role: the "
                "estimator 'factored'), which sgd cannot do; use optimizer = adam or adamw"
            )
        on_device = device_of(model).type != "cpu"  # one kernel, and no host read with a scaler
        return torch.optim.SGD(groups, lr=lr, momentum=0.9, fused=on_device)
    if recipe.optimizer == "adamw":
        return (RowAdamW if tables else torch.optim.AdamW)(groups, lr=lr, fused=True)
    return (RowAdam if tables else torch.optim.Adam)(groups, lr=lr, fused=True)


def set_rates(optimizer: Optimizer, schedule: str, clock: Clock) -> None:
    """Sets the learning rates of a step, where the recipe has a schedule.

    Args:
        optimizer: The optimizer.
        schedule: "constant" or "one_cycle".
        clock: Where training is.
    """
    if schedule == "one_cycle":
        progress = (clock.epoch * clock.steps + clock.step) / (clock.epochs * clock.steps)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * one_cycle(progress)


def _cosine(progress: float, start: float, end: float) -> float:
    """Half a cosine wave from `start` to `end`.

    >>> _cosine(0.5, 2.0, 4.0)
    3.0
    """
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2


def one_cycle(progress: float, *, peak: float = 0.3, first: float = 0.04) -> float:
    """Share of the highest learning rate: up in the first part, down to almost 0 in the rest.

    Both parts are half cosine waves, as in torch's `OneCycleLR`.

    Args:
        progress: In [0, 1].
        peak: Where the highest rate is reached.
        first: Share at the start.

    >>> [round(one_cycle(progress), 4) for progress in (0.0, 0.3, 1.0)]
    [0.04, 1.0, 0.0]
    """
    if progress < peak:
        return _cosine(progress / peak, first, 1.0)
    return _cosine((progress - peak) / (1 - peak), 1.0, first * 1e-4)


def _group(module: nn.Module, lr: float, weight_decay: float) -> dict[str, Any]:
    parameters = [weight for weight in module.parameters() if weight.requires_grad]
    return {"params": parameters, "lr": lr, "initial_lr": lr, "weight_decay": weight_decay}


BETAS = (0.9, 0.999)
EPS = 1e-8


def row_state(table: Tensor) -> dict[str, Tensor]:
    """The state of a table `[N, r]` that has not moved yet.

    Returns:
        `step` `[N]`, visits of each row; `exp_avg` `[N, r]` and `exp_avg_sq` `[N]`, the moments.
    """
    return {
        "step": table.new_zeros(len(table)),
        "exp_avg": torch.zeros_like(table),
        "exp_avg_sq": table.new_zeros(len(table)),
    }


@torch.no_grad()
def update_rows(table: Tensor, grad: Tensor, state: dict[str, Tensor], lr: float) -> None:
    """Moves the rows that have a gradient, and their state, in place.

    A row that occurs more than once has the sum of its gradients everywhere, and so the same new
    value: `coalesce` would do too, but reads the number of different rows on the host.

    Args:
        table: `[N, r]`.
        grad: Its sparse gradient; a row may occur more than once.
        state: The state that `row_state` gives.
        lr: Learning rate.
    """
    rows, slope = grad._indices()[0], grad._values()
    slope = (rows[:, None] == rows).to(slope.dtype) @ slope
    first, second = BETAS
    count = state["step"][rows] + 1
    mean = torch.lerp(state["exp_avg"][rows], slope, 1 - first)
    square = torch.lerp(state["exp_avg_sq"][rows], slope.square().mean(1), 1 - second)
    scale = (square / (1 - second**count)).sqrt_().add_(EPS).mul_(1 - first**count)
    state["step"].index_copy_(0, rows, count)
    state["exp_avg"].index_copy_(0, rows, mean)
    state["exp_avg_sq"].index_copy_(0, rows, square)
    table.index_copy_(0, rows, table[rows] - lr * mean / scale[:, None])


class RowWise(Optimizer):
    """Gives another optimizer row-wise updates for its parameter groups marked `rows`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        # A `GradScaler` then unscales gradients and leaves out bad steps itself.
        self._step_supports_amp_scaling = False

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for table in group["params"] if group.get("rows") else ():
                if table.grad is None:
                    continue
                if not self.state[table]:
                    self.state[table] = row_state(table)
                update_rows(table, table.grad, self.state[table], group["lr"])
                table.grad = None  # so that the other optimizer leaves it alone
        super().step()


class RowAdam(RowWise, torch.optim.Adam):
    """`torch.optim.Adam`, and row-wise updates for the groups marked `rows`."""


class RowAdamW(RowWise, torch.optim.AdamW):
    """`torch.optim.AdamW`, and row-wise updates (without decay) for the groups marked `rows`."""
