"""The expected number of positives per item (the papers' k), class priors, and their sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs, MappedInputs
from plusone.io.keys import content_key
from plusone.methods import get_method
from plusone.recipe import Recipe

if TYPE_CHECKING:
    from plusone.inputs.task import Task
    from plusone.probabilities.calibration import HeldOut
    from plusone.probabilities.k import LabelsPerItem
    from plusone.training.trainer import Training

Source = Literal["none", "given", "truth", "validation", "estimated"]
CACHED_ESTIMATES = 64
SAMPLED_INPUTS = 64  # that the key of an estimate hashes

ORIGINS = {
    "none": "unknown",
    "given": "given",
    "truth": "counted on the training items",
    "validation": "counted on the validation items",
    "estimated": "estimated",
}

_estimates: dict[str, LabelsPerItem] = {}
_missed: dict[str, Tensor] = {}  # of the last data


@dataclass(frozen=True)
class Expected:
    """Positives per item.

    Args:
        k: The number; None if the method does not need it and none was given.
        source: "given", "truth" (counted on the training items), "validation" (counted on the
            validation items), "estimated" (from single positives of the training items) or "none".
        estimate: k with its range, and how labels are picked, where that was estimated.
    """

    k: float | None
    source: Source
    estimate: LabelsPerItem | None = None


def expected(
    recipe: Recipe,
    task: Task,
    folder: Path | None = None,
    tick: Callable[[int], None] | None = None,
) -> Expected:
    """The k of a run: as given, counted where labels are known, or estimated.

    "truth" counts on the training items, as the papers do; "estimate" never uses the truth. Where
    nothing is given and the method needs k, it is counted on the validation items if their labels
    are known and used for selection; otherwise it is estimated.

    Args:
        recipe: The settings.
        task: The data.
        folder: Where features of images are cached, for an estimate.
        tick: Called with the number of items whose features were just extracted for one.
    """
    given = recipe.expected_positives
    if given == "truth":
        if task.train.truth is None:
            raise InputError("expected_positives = 'truth' needs a data set with all labels")
        return Expected(float(task.train.truth.per_item(1).mean()), "truth")
    check_expected_positives(recipe, len(task.classes))
    if isinstance(given, float):
        return Expected(given, "given")
    if given is None and not get_method(recipe.method).needs_k:
        return Expected(None, "none")
    if given is None and task.val.truth is not None and recipe.select_on != "observed":
        return Expected(float(task.val.truth.per_item(1).mean()), "validation")
    estimate = estimated(recipe, task, folder=folder, tick=tick)
    return Expected(estimate.k, "estimated", estimate)


def class_priors(
    recipe: Recipe, task: Task, folder: Path | None = None
) -> tuple[float, ...] | None:
    """The class priors of a run: as given, counted, estimated, or None.

    Args:
        recipe: The settings.
        task: The data.
        folder: Where features of images are cached, for an estimate.
    """
    given = recipe.class_priors
    if given is None or not get_method(recipe.method).uses_priors:
        return None
    if given == "truth":
        if task.train.truth is None:
            raise InputError("class_priors = 'truth' needs a data set with all labels")
        return tuple((task.train.truth.per_class(1) / len(task.train)).tolist())
    if given == "estimate":
        from plusone.closed_form.estimates import from_features, usable_rows
        from plusone.features.extraction import vectors_of

        rows = usable_rows(task.train.observed)
        groups = None if task.train.groups is None else task.train.groups[rows]
        seen = task.train.observed.take(rows)
        vectors = vectors_of(recipe, task, rows, folder=folder)
        found = from_features(vectors, seen, groups, picks=recipe.picks, hierarchy=task.hierarchy)
        return tuple(found.priors.tolist())
    if len(given) != len(task.classes):
        raise InputError(
            f"class_priors has {len(given)} numbers for the {len(task.classes)} classes there are"
        )
    return given


def missed_labels(recipe: Recipe, task: Task, folder: Path | None = None) -> Tensor | None:
    """Probability that each unobserved label of the training items is there, `[N, L]`, or None.

    It is 0 for seen labels, and for items that recovery does not use: those without a seen
    positive, and all beyond 20,000.

    Args:
        recipe: The settings.
        task: The data.
        folder: Where features of images are cached.
    """
    info = get_method(recipe.method)
    if recipe.unobserved == "full" or info.scheme != "single" or info.closed_form:
        return None
    from plusone.closed_form.estimates import missed_labels, usable_rows
    from plusone.features.extraction import vectors_of

    if (key := _key(recipe, task)) in _missed:
        return _missed[key]
    rows = usable_rows(task.train.observed)
    groups = None if task.train.groups is None else task.train.groups[rows]
    table = torch.zeros(task.train.observed.shape)
    table[torch.from_numpy(rows)] = missed_labels(
        vectors_of(recipe, task, rows, folder=folder),
        task.train.observed.take(rows),
        groups,
        picks=recipe.picks,
        hierarchy=task.hierarchy,
    )
    _missed.clear()
    _missed[key] = table
    return table


def expected_by_calibration(training: Training, held_out: HeldOut) -> Expected:
    """The k and the pick model that a calibration on seen labels holds.

    They are those of the method, where it estimates them; else they are estimated from features
    where there are any, and from the scores of the held-out items where there are none. A k that is
    known stays.
    """
    from plusone.probabilities.k import LabelsPerItem, labels_per_item, with_salience

    if not held_out.labels.per_item(0).any():
        return training.expected
    try:
        if (estimate := getattr(training, "estimate", None)) is not None:
            pass
        elif any(stage.inputs == "images" for stage in training.stages) and training.task.images:
            scores = torch.sigmoid(held_out.log_odds.double()).numpy()
            estimate = labels_per_item(scores, held_out.labels, training.task.hierarchy)
            if training.recipe.picks != "uniform":
                estimate = with_salience(estimate, scores, held_out.labels)
        else:
            estimate = estimated(training.recipe, training.task, training.inputs.vectors)
    except InputError:
        return training.expected
    if training.k is not None and training.expected.estimate is None:
        given = LabelsPerItem.given(training.k)
        estimate = replace(given, salience=estimate.salience)
        return replace(training.expected, estimate=estimate)
    return Expected(estimate.k, "estimated", estimate)


def check_expected_positives(recipe: Recipe, n_classes: int) -> None:
    """Refuses a k larger than the number of classes."""
    given = recipe.expected_positives
    if isinstance(given, float) and given > n_classes:
        raise InputError(
            f"expected_positives = {given:g} is more than the {n_classes} classes there are"
        )


def estimated(
    recipe: Recipe,
    task: Task,
    vectors: Callable[[npt.NDArray[np.int64]], Tensor] | None = None,
    *,
    folder: Path | None = None,
    tick: Callable[[int], None] | None = None,
) -> LabelsPerItem:
    """Estimates k from single positives of the training items; cached for the same data.

    Args:
        recipe: The settings.
        task: The data.
        vectors: Gives features of training items, where they are known already.
        folder: Where features of images are cached.
        tick: Called with the number of items whose features were just extracted.
    """
    from plusone.closed_form.estimates import k_from_features, usable_rows
    from plusone.features.extraction import vectors_of

    known = vectors is None or not task.images  # a backbone of the user's own has no name
    key = _key(recipe, task)
    if known and key in _estimates:
        return _estimates[key]
    try:
        named = task.train.named
        rows = usable_rows(task.train.observed if named is None else named)
        of = vectors or partial(vectors_of, recipe, task, tick=tick, folder=folder)
        groups = None if task.train.groups is None else task.train.groups[rows]
        seen = task.train.observed.take(rows)
        named = None if named is None else named.take(rows)
        k = k_from_features(
            of(rows), seen, groups, picks=recipe.picks, named=named, hierarchy=task.hierarchy
        )
    except InputError as error:
        raise InputError(
            f"the method {recipe.method} needs the expected number of positives per item, and "
            f"it cannot be estimated: {error}"
        ) from None
    if known:
        if len(_estimates) >= CACHED_ESTIMATES:
            _estimates.clear()
        _estimates[key] = k
    return k


def _key(recipe: Recipe, task: Task) -> str:
    part, contents = task.train, list[object]()
    if isinstance(part.inputs, ArrayInputs | MappedInputs) and len(part):
        sample = np.linspace(0, len(part) - 1, min(len(part), SAMPLED_INPUTS)).astype(np.int64)
        contents.append(part.inputs.at(torch.from_numpy(sample)))
    if task.images:
        contents.append((recipe.backbone, recipe.weights, recipe.seed, recipe.aspect, recipe.crops))
        contents.append(task.shape)
    if part.groups is not None:
        contents.append("\n".join(part.groups.tolist()))
    ids = "\n".join(part.ids.tolist())
    contents += [] if part.named is None else [part.named.digest()]
    contents += [] if task.hierarchy is None else [task.hierarchy.parent]
    return content_key(part.observed.digest(), ids, recipe.picks, *contents)
