"""A recipe as a plan, a model with initial weights and its method."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from plusone.closed_form.kernel import KernelHead, kind_of, n_landmarks
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.methods import get_method
from plusone.methods._base import Method, MethodInfo, make_options
from plusone.methods._labelwise import LabelwiseOptions
from plusone.models.backbones import backbone_for, feature_dim, frozen_parts, is_pretrained
from plusone.models.branches import Branches, MeanHead
from plusone.models.classifier import Classifier
from plusone.models.heads import Head, LabelwiseHead, LinearHead
from plusone.recipe import Recipe
from plusone.seeds import seeded
from plusone.types import Stage, TrainLabels

BRANCH_HEADS = "model.head.heads."  # in a weights file


@dataclass(frozen=True)
class Plan:
    """What a run of a recipe does, one stage after the other.

    Args:
        stages: Its stages; one that is solved in closed form has one epoch.
        on_features: Whether every stage trains a head on fixed features.
        solves: Whether stages on fixed features are solved in closed form.
        closed_form: Whether the whole run is one solution in closed form.
        kernel: Whether the head works in the space of a kernel.
        end_to_end: Whether a pretrained network learns labels that a closed form recovered.
        remarks: What a user should know of these settings, as sentences.
    """

    stages: tuple[Stage, ...]
    on_features: bool
    solves: bool
    closed_form: bool
    kernel: bool
    end_to_end: bool = False
    remarks: tuple[str, ...] = ()


def plan_of(recipe: Recipe, *, images: bool) -> Plan:
    """The plan of a recipe for images, or for features.

    Raises:
        InputError: The method or a setting does not suit the inputs of a stage.
    """
    info = get_method(recipe.method)
    stages = recipe.resolved_stages(images=images, phases=info.phases_of(recipe.options))
    kinds = {stage.inputs for stage in stages}
    on_features, solves = kinds == {"features"}, info.closed_form
    if not info.trains_on(kinds):
        raise _wrong_inputs(info, images=images)
    if recipe.head == "kernel" and not on_features:
        raise InputError(
            "a kernel head works on fixed features, and this training changes the backbone; use "
            "--mode linear, or head = linear"
        )
    if recipe.head == "labelwise":
        if solves and "features" in kinds:
            raise InputError(
                f"{recipe.method} is solved in closed form on fixed features, which has no "
                "label-wise embeddings; use --mode finetune, or head = linear"
            )
        if info.inputs == "vectors":
            raise InputError(
                f"{recipe.method} needs one vector for each item, and a labelwise head has the "
                "whole feature map; leave head out"
            )
        _head_sizes(recipe)
    end_to_end = (
        solves
        and kinds == {"images"}
        and recipe.head != "labelwise"
        and is_pretrained(recipe.backbone, recipe.weights)
    )
    if recipe.crops != "one" and not images:
        raise InputError(f"crops = '{recipe.crops}' is about images, and this data has features")
    if recipe.crops != "one" and not (on_features or end_to_end):
        raise InputError(
            f"crops = '{recipe.crops}' is about features of a backbone that closed forms or heads "
            "learn from: use the mode linear, or train on whole images and predict with --crops "
            "five"
        )
    if recipe.standardize and not on_features:
        raise InputError(
            "standardize works on fixed feature vectors, and this training changes the backbone; "
            "use --mode linear, or leave it out"
        )
    if solves and recipe.group_weight and "features" in kinds:
        raise InputError(
            f"group_weight is a term of gradient steps, and {recipe.method} has a closed form on "
            "fixed features; choose another method, or leave group_weight out"
        )
    return Plan(
        stages=tuple(
            replace(stage, epochs=1) if solves and stage.inputs == "features" else stage
            for stage in stages
        ),
        on_features=on_features,
        solves=solves,
        closed_form=solves and on_features,
        kernel=recipe.head == "kernel" or (recipe.head == "auto" and solves and on_features),
        end_to_end=end_to_end,
        remarks=info.make_options(recipe.options).remarks([stage.epochs for stage in stages]),
    )


def _head_sizes(recipe: Recipe) -> LabelwiseOptions:
    """The sizes of a labelwise head."""
    return make_options(LabelwiseOptions, recipe.head_options, "the labelwise head", "head")


def _head(recipe: Recipe, method: Method, dim: int) -> Head:
    """The head of a recipe: the method's own, or a labelwise one in the place of a linear layer."""
    own = method.make_head(dim)
    if recipe.head != "labelwise" or isinstance(own, LabelwiseHead):
        return own
    if type(own) is not LinearHead:
        raise InputError(
            f"{recipe.method} has a head of its own with these options; leave head = labelwise out"
        )
    sizes = _head_sizes(recipe).sized(method.labels.places)
    head = LabelwiseHead(dim, method.labels.n_classes, **sizes.head)
    if not own.bias.requires_grad:  # a bias that the method has set
        head.bias = own.bias  # type: ignore[assignment]
    return head


def _wrong_inputs(info: MethodInfo, *, images: bool) -> InputError:
    """Says which inputs a method needs, where a stage does not have them."""
    if info.inputs == "vectors":
        needs, what = "one fixed vector for each item", "this training changes the backbone"
        instead = "--mode linear"
    else:
        needs = "images in every step"
        what = "this run has features in a stage" if images else "this data has features"
        instead = "--mode finetune" if images else "images"
    return InputError(
        f"the method {info.name} needs {needs}, and {what}; use {instead}, or another method"
    )


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
    plan = plan_of(recipe, images=images)
    with seeded(recipe.seed, "initial weights"):
        method = info.build(labels, info.make_options(recipe.options))
        method.name = recipe.method
        if images and backbone is None:
            row = backbone_for(recipe.backbone)
            backbone = row.build(shape[0], shape[-1], weights or recipe.weights)
        if backbone is not None and not plan.on_features:
            frozen_parts(backbone, recipe.freeze, recipe.freeze_norm)  # before anything is trained
        dim = feature_dim(backbone) if backbone is not None else shape[-1]
        if plan.kernel:
            dim = landmarks or n_landmarks(labels.n_items, labels.n_classes)
        head = _head(recipe, method, dim)
        if images and recipe.crops != "one" and head.pooling != "mean":
            raise InputError(
                f"crops = '{recipe.crops}' averages the features of the crops, and {recipe.method} "
                "needs every place of the feature map; leave crops out"
            )
        if recipe.standardize and (head.pooling != "mean" if images else len(shape) > 1):
            raise InputError(
                f"standardize works on one fixed vector for each item, and {recipe.method} is "
                "trained on several vectors here; leave it out"
            )
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


def branched(model: Classifier, tensors: Mapping[str, torch.Tensor]) -> bool:
    """Gives a model the branches that saved tensors are of; whether they have any.

    Args:
        model: With the backbone of each branch; it is changed.
        tensors: By name, those of the model below "model.".
    """
    heads = below(dict(tensors), BRANCH_HEADS)
    numbers = sorted({name.split(".")[0] for name in heads})
    if not numbers:
        return False
    if numbers not in (["0"], ["0", "1"]):
        raise InputError(f"a model has at most two branches, and these weights have {numbers}")
    dim, made = feature_dim(model.backbone), list[Head]()
    for own in (below(heads, f"{number}.") for number in numbers):
        classes, landmarks = len(own["linear.bias"]), own.get("similarity.landmarks")
        kind = kind_of(f".{name}" for name in own)
        made.append(
            LinearHead(dim, classes)
            if landmarks is None
            else KernelHead(dim, classes, len(landmarks), kind)
        )
    backbones = [model.backbone, *(copy.deepcopy(model.backbone) for _ in numbers[1:])]
    model.backbone, model.head = Branches(backbones, dim), MeanHead(made)
    return True


def below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The tensors whose names start with a prefix, without it."""
    return {
        key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
    }
