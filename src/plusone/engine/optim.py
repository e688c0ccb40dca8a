"""Optimizers from a recipe."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from plusone.engine.adam import LeanAdam
from plusone.engine.row_adam import RowAdam, RowAdamW
from plusone.errors import InputError
from plusone.methods.base import Method
from plusone.models.classifier import Classifier
from plusone.recipe import Recipe
from plusone.types import Stage


def make_optimizer(model: Classifier, method: Method, recipe: Recipe, stage: Stage) -> Optimizer:
    """One group each for the backbone, the head and the method's own parameters.

    The head learns at `lr * head_lr_mult`, the method's parameters at `lr * lr_mult` of the
    method and without weight decay. What a stage does not train has no group. Tables of the
    method that have sparse gradients get a group of their own, marked `rows`: see `RowWise`.
    """
    frozen = stage.freeze_backbone or stage.inputs == "features"
    groups = []
    if not frozen:
        groups.append(_group(model.backbone, stage.lr, recipe.weight_decay))
    groups.append(_group(model.head, stage.lr * recipe.head_lr_mult, recipe.weight_decay))
    own = _group(method, stage.lr * method.lr_mult, 0.0)
    tables = _sparse_tables(method)
    groups.append(own | {"params": [weight for weight in own["params"] if weight not in tables]})
    groups.append(own | {"params": list(tables), "rows": True})
    kept = [group for group in groups if group["params"]]
    if recipe.optimizer == "sgd":
        if tables:
            raise InputError(
                f"the method {method.name} keeps a table that moves row by row (for role: the "
                "estimator 'factored'), which sgd cannot do; use optimizer = adam or adamw"
            )
        return torch.optim.SGD(kept, lr=stage.lr, momentum=0.9)
    if recipe.optimizer == "adamw":
        return (RowAdamW if tables else torch.optim.AdamW)(kept, lr=stage.lr, fused=True)
    return (RowAdam if tables else LeanAdam)(kept, lr=stage.lr)


def _group(module: nn.Module, lr: float, weight_decay: float) -> dict[str, Any]:
    parameters = [weight for weight in module.parameters() if weight.requires_grad]
    return {"params": parameters, "lr": lr, "weight_decay": weight_decay}


def _sparse_tables(module: nn.Module) -> dict[Tensor, None]:
    """The tables whose gradients are sparse, in order."""
    found = (part for part in module.modules() if isinstance(part, nn.Embedding) and part.sparse)
    return {part.weight: None for part in found if part.weight.requires_grad}
