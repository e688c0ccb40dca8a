"""The learning rate of a linear model: several runs are trained as one stack, the best is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from plusone.autorecipe import Choice, Composed
from plusone.build import plan_of
from plusone.features.extraction import feature_task
from plusone.inputs.task import Task
from plusone.methods import get_method
from plusone.recipe import Recipe
from plusone.results import EpochRecord
from plusone.training.closed_fit import fit_for
from plusone.training.stack import AloneError, train_stacked
from plusone.training.state import copy_of
from plusone.training.trainer import Training

MOST_ITEMS = 20_000
FACTORS = (0.1, 0.3, 1.0, 3.0)  # of the rate that the rules give


@dataclass(frozen=True)
class Picked:
    """The best of several runs with different learning rates.

    Args:
        training: The run, with its best weights in place.
        records: One record per epoch.
        choice: The learning rate, and why it was chosen.
    """

    training: Training
    records: tuple[EpochRecord, ...]
    choice: Choice


def begin_run(
    task: Task, composed: Composed, backbone: nn.Module | None = None
) -> tuple[Composed, Training, Iterable[EpochRecord]]:
    """The run of some settings, and its epochs, which train it.

    Where a rule chose the learning rate, several are tried first; the settings then have the best.

    Args:
        task: The data.
        composed: The settings.
        backbone: A module to use instead of the recipe's backbone.
    """
    picked = pick_rate(task, composed.recipe) if "lr" in composed.chosen else None
    if picked is not None:
        return composed.revised(picked.choice), picked.training, picked.records
    training = fit_for(task, composed.recipe, backbone=backbone)
    return composed, training, training.epochs()


def rates_around(rate: float) -> list[float]:
    """The learning rates that are tried around one.

    >>> rates_around(0.01)
    [0.001, 0.003, 0.01, 0.03]
    """
    return [float(f"{factor * rate:.0e}") for factor in FACTORS]


def pick_rate(
    task: Task,
    recipe: Recipe,
    on_epoch: Callable[[int], None] | None = None,
    *,
    tick: Callable[[int], None] | None = None,
    folder: Path | None = None,
) -> Picked | None:
    """The finished run of the recipe with the best of several learning rates.

    The best is the one whose best epoch has the highest score on the validation items, as between
    epochs (`recipe.select_by`). None where runs of the recipe cannot be stacked, where so many
    items make each as long as a run alone, or where features of images are not cached.

    Args:
        task: The data.
        recipe: The settings; rates around its own are tried.
        on_epoch: Called after every epoch with its number, from 1.
        tick: Called with the number of items whose features were just extracted.
        folder: Where features of images are cached.
    """
    if len(task.train) > MOST_ITEMS or get_method(recipe.method).alone is not None:
        return None
    vectors, trained, whole = task, recipe, None
    if task.images and folder is not None and plan_of(recipe, images=True).on_features:
        vectors = feature_task(task, recipe, tick, folder)
        trained = recipe.model_copy(update={"crops": "one"})  # which are in the features
        whole = Training(task, recipe, features=folder, on_extract=tick)
    rates = rates_around(recipe.lr)
    try:
        recipes = [trained.model_copy(update={"lr": rate}) for rate in rates]
        head = None if whole is None else whole.model.head.state_dict()
        stack = train_stacked(vectors, recipes, on_epoch, head=head)
    except AloneError:
        return None
    best, records = max(stack, key=lambda run: -1.0 if run[0].best is None else run[0].best.score)
    listed = ", ".join(f"{rate:g}" for rate in rates)
    validator, rate = best.validator, best.recipe.lr
    seen = "the seen" if validator.selected_on == "observed" else "all"
    by = f"{'mAP' if validator.selected_by == 'map' else 'the score'} on {seen}"
    why = f"the best of {listed} by {by} labels of the validation items"
    if whole is not None:
        _take_over(whole, best)
        best = whole
    return Picked(best, tuple(records), Choice({"lr": rate}, why))


def _take_over(whole: Training, run: Training) -> None:
    """Gives head and learning rate of a finished run on features to the run on their images."""
    assert run.best is not None
    whole.recipe = whole.recipe.model_copy(update={"lr": run.recipe.lr})
    whole.model.head = run.model.head
    whole.stage, whole.epoch, whole.stage_maps = run.stage, run.epoch, run.stage_maps
    whole.best = replace(run.best, model=copy_of(whole.model))
