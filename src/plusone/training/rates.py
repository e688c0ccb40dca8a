"""The learning rate of a linear model, chosen among several that are trained as one stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from plusone.build import on_fixed_features
from plusone.features.extraction import feature_task
from plusone.inputs.task import Task
from plusone.methods import get_method
from plusone.recipe import Recipe
from plusone.training.stack import train_stacked, why_alone

MOST_ITEMS = 20_000
FACTORS = (0.1, 0.3, 1.0, 3.0)  # of the rate that the rules give


def pick_rate(
    task: Task,
    recipe: Recipe,
    on_epoch: Callable[[int], None] | None = None,
    *,
    tick: Callable[[int], None] | None = None,
    folder: Path | None = None,
) -> tuple[Recipe, str] | None:
    """The recipe with the best of several learning rates, and a sentence about it.

    The best is the one whose best epoch has the highest score on the validation items, as between
    epochs (`recipe.select_by`). None where runs of the recipe cannot be stacked, where so many
    items make each as long as a training alone, or where features of images are not cached.

    Args:
        task: The data.
        recipe: The settings; rates around its own are tried.
        on_epoch: Called after every epoch with its number, from 1.
        tick: Called with the number of items whose features were just extracted.
        folder: Where features of images are cached, for the training that follows.
    """
    if len(task.train) > MOST_ITEMS or get_method(recipe.method).alone is not None:
        return None
    trained = recipe
    if task.images and folder is not None and on_fixed_features(recipe, images=True):
        task = feature_task(task, recipe, tick, folder)
        trained = recipe.model_copy(update={"crops": "one"})  # which are in the features
    if why_alone(task, trained) is not None:
        return None
    rates = [float(f"{factor * recipe.lr:.0e}") for factor in FACTORS]
    recipes = [trained.model_copy(update={"lr": rate}) for rate in rates]
    stack = [training for training, _ in train_stacked(task, recipes, on_epoch)]
    best = max(stack, key=lambda training: -1.0 if training.best is None else training.best.score)
    listed = ", ".join(f"{rate:g}" for rate in rates)
    validator = best.validator
    seen = "the seen" if validator.selected_on == "observed" else "all"
    by = f"{'mAP' if validator.selected_by == 'map' else 'the score'} on {seen}"
    why = f"lr {best.recipe.lr:g}: the best of {listed} by {by} labels of the validation items"
    return recipe.model_copy(update={"lr": best.recipe.lr}), why


def with_rate(rules: Sequence[str], why: str) -> tuple[str, ...]:
    """The sentences of the rules, with this one in place of the one about the learning rate."""
    return tuple(why if sentence.startswith("lr ") else sentence for sentence in rules)
