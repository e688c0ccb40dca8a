"""Optimizers from a recipe."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer

from plusone.engine.adam import LeanAdam
from plusone.methods.base import Method
from plusone.models.classifier import Classifier
from plusone.recipe import Recipe
from plusone.types import Stage


def make_optimizer(model: Classifier, method: Method, recipe: Recipe, stage: Stage) -> Optimizer:
    """One group each for the backbone, the head and the method's own parameters.

    The head learns at `lr * head_lr_mult`, the method's parameters at `lr * lr_mult` of the
    method and without weight decay. What a stage does not train has no group.
    """
    frozen = stage.freeze_backbone or stage.inputs == "features"
    groups = []
    if not frozen:
        groups.append(_group(model.backbone, stage.lr, recipe.weight_decay))
    groups.append(_group(model.head, stage.lr * recipe.head_lr_mult, recipe.weight_decay))
    groups.append(_group(method, stage.lr * method.lr_mult, 0.0))
    kept = [group for group in groups if group["params"]]
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(kept, lr=stage.lr, momentum=0.9)
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(kept, lr=stage.lr, fused=True)
    return LeanAdam(kept, lr=stage.lr)


def _group(module: nn.Module, lr: float, weight_decay: float) -> dict[str, object]:
    parameters = [weight for weight in module.parameters() if weight.requires_grad]
    return {"params": parameters, "lr": lr, "weight_decay": weight_decay}
