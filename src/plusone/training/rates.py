"""The learning rate of a linear model, chosen among several that are trained as one stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plusone.recipe import Recipe
from plusone.training.linear import train_stacked, why_alone
from plusone.training.task import Task

MOST_ITEMS = 20_000
FACTORS = (0.1, 0.3, 1.0, 3.0)  # of the rate that the rules give


def pick_rate(
    task: Task, recipe: Recipe, on_epoch: Callable[[int], None] | None = None
) -> tuple[Recipe, str] | None:
    """The recipe with the best of several learning rates, and a sentence about it.

    The best is the one whose best epoch has the highest score on the validation items, as between
    epochs (`recipe.select_by`). None where runs of the recipe cannot be stacked, or where so many
    items make each as long as a training alone.

    Args:
        task: The data.
        recipe: The settings; rates around its own are tried.
        on_epoch: Called after every epoch with its number, from 1.
    """
    if len(task.train) > MOST_ITEMS or why_alone(task, recipe) is not None:
        return None
    rates = [float(f"{factor * recipe.lr:.0e}") for factor in FACTORS]
    recipes = [recipe.model_copy(update={"lr": rate}) for rate in rates]
    trained = [training for training, _ in train_stacked(task, recipes, on_epoch)]
    best = max(trained, key=lambda training: -1.0 if training.best is None else training.best.score)
    listed = ", ".join(f"{rate:g}" for rate in rates)
    validator = best.validator
    by = f"{validator.selected_by} on the {'true' if validator.selected_on == 'truth' else 'seen'}"
    why = f"lr {best.recipe.lr:g}: the best of {listed} by {by} labels of the validation items"
    return best.recipe, why


def with_rate(rules: Sequence[str], why: str) -> tuple[str, ...]:
    """The sentences of the rules, with this one in place of the one about the learning rate."""
    return tuple(why if sentence.startswith("lr ") else sentence for sentence in rules)
