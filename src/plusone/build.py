"""A recipe as a model with initial weights and its method."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import nn

from plusone.closed_form.kernel import n_landmarks
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.methods import get_method
from plusone.methods._base import Method, MethodInfo
from plusone.models.backbones import backbone_for, feature_dim
from plusone.models.classifier import Classifier
from plusone.models.heads import Head
from plusone.recipe import Recipe
from plusone.seeds import seeded
from plusone.types import TrainLabels


def build(
    recipe: Recipe,
    labels: TrainLabels,
    shape: tuple[int, ...],
    *,
    images: bool,
    backbone: nn.Module | None = None,
    weights: str | None = None,
    landmarks: int | None = None,
) -> tuple[Classifier, Method]:
    """Builds a model with initial weights, and its method.

    A kernel head is built as it is trained: on vectors with one number for each landmark.

    Args:
        recipe: The settings.
        labels: The observed labels of the training items.
        shape: Shape of one input.
        images: Whether inputs are images.
        backbone: A module to use instead of the recipe's backbone; needs an attribute `dim`.
        weights: Weights of the backbone, instead of those of the recipe.
        landmarks: Of a kernel head; by default as many as the training items need.
    """
    info = get_method(recipe.method)
    for stage in recipe.stages:
        info.make_options(recipe.options | stage.options)  # refuses unknown options early
    _check_inputs(recipe, info, images=images)
    with seeded(recipe.seed, "initial weights"):
        method = info.build(labels, info.make_options(recipe.options))
        method.name = recipe.method
        if images and backbone is None:
            row = backbone_for(recipe.backbone)
            backbone = row.build(shape[0], shape[-1], weights or recipe.weights)
        dim = feature_dim(backbone) if backbone is not None else shape[-1]
        if head_of(recipe, images=images) == "kernel":
            dim = landmarks or n_landmarks(labels.n_items)
        head = method.make_head(dim)
        if images and recipe.crops != "one" and head.pooling != "mean":
            raise InputError(
                f"crops = '{recipe.crops}' averages the features of the crops, and {recipe.method} "
                "needs every place of the feature map; leave crops out"
            )
        if recipe.standardize:
            _check_vectors(recipe, head, images=images, tokens=not images and len(shape) > 1)
        return Classifier(backbone or nn.Identity(), head, recipe.precision), method


def blank_labels(n_classes: int, k: float | None, seed: int, shape: tuple[int, ...]) -> TrainLabels:
    """Labels of one item, for a method that predicts and needs nothing of its training items.

    Args:
        n_classes: How many classes there are.
        k: Expected positives per item.
        seed: Of the recipe.
        shape: Shape of one input.
    """
    one = LabelMatrix.from_dense(np.eye(1, n_classes, dtype=np.int8), default=0)
    return TrainLabels(one, k, seed, places=len(shape) > 1)


def _check_inputs(recipe: Recipe, info: MethodInfo, *, images: bool) -> None:
    """Refuses a method where it lacks the fixed vectors, or the images, that it needs."""
    stages = recipe.resolved_stages(images=images, phases=info.phases)
    if info.trains_on(stage.inputs for stage in stages):
        return
    if info.inputs == "vectors":
        needs, what = "one fixed vector for each item", "this training changes the backbone"
        instead = "--mode linear"
    else:
        needs = "images in every step"
        what = "this run has features in a stage" if images else "this data has features"
        instead = "--mode finetune" if images else "images"
    raise InputError(
        f"the method {info.name} needs {needs}, and {what}; use {instead}, or another method"
    )


def _check_vectors(recipe: Recipe, head: Head, *, images: bool, tokens: bool) -> None:
    """Refuses `standardize` where a head is not trained on one fixed vector for each item."""
    if not on_fixed_features(recipe, images=images):
        what = "this training changes the backbone; use --mode linear"
    elif tokens or (images and head.pooling != "mean"):
        what = f"{recipe.method} is trained on several vectors for each item here"
    else:
        return
    raise InputError(f"standardize works on fixed feature vectors, and {what}, or leave it out")


def head_of(recipe: Recipe, *, images: bool) -> Literal["linear", "kernel"]:
    """The kind of head; a kernel head needs fixed features in every stage."""
    if recipe.head == "kernel" and not on_fixed_features(recipe, images=images):
        raise InputError(
            "a kernel head works on fixed features, and this training changes the backbone; use "
            "--mode linear, or head = linear"
        )
    if recipe.head == "auto":
        return "kernel" if in_closed_form(recipe, images=images) else "linear"
    return recipe.head


def on_fixed_features(recipe: Recipe, *, images: bool) -> bool:
    """Whether every stage trains a head on fixed features."""
    phases = get_method(recipe.method).phases
    stages = recipe.resolved_stages(images=images, phases=phases)
    return all(stage.inputs == "features" for stage in stages)


def in_closed_form(recipe: Recipe, *, images: bool) -> bool:
    """Whether the whole training is one solution in closed form."""
    closed = get_method(recipe.method).closed_form
    return closed and on_fixed_features(recipe, images=images)


def below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The tensors whose names start with a prefix, without it."""
    return {
        key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
    }
