"""From the parameters of the classifier to a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from plusone.methods import get_method
from plusone.recipe import Recipe, make_recipe

STEPS = 256  # an epoch has about this many steps or more
SMALLEST, LARGEST = 16, 1024
MANY_WEIGHTS, SMALLEST_THEN = 1 << 18, 64
MOST_HELD_OUT = 5000  # more would make no choice better, and every epoch slower


def suitable_batch_size(n_items: int, n_features: int, n_classes: int) -> int:
    """Items per step where nothing is said.

    16, as in the papers, up to 8,000 items; then the power of two that leaves 256 to 512 steps in
    an epoch, at most 1024. At least 64 where the model has more than 262,144 weights: below,
    most of the time goes into moving them instead of into finding out where to.

    >>> suitable_batch_size(5_000, 1280, 20), suitable_batch_size(100_000, 768, 1000)
    (16, 256)
    >>> suitable_batch_size(5_000, 768, 1000)
    64
    """
    least = SMALLEST_THEN if n_features * n_classes > MANY_WEIGHTS else SMALLEST
    fitting = 1 << (max(n_items // STEPS, 1).bit_length() - 1)
    return min(max(fitting, least), LARGEST)


def suitable_fraction(n_items: int) -> float:
    """Share of the items to hold out where nothing is said: a tenth, at most 5,000 items.

    >>> suitable_fraction(1_000), suitable_fraction(100_000)
    (0.1, 0.05)
    """
    return min(0.1, MOST_HELD_OUT / max(n_items, 1))


def make_settings(
    method: str, batch_size: int, seed: int, given: Mapping[str, Any], more: Mapping[str, Any]
) -> Recipe:
    """The recipe of a fit.

    Args:
        method: Name in the method table.
        batch_size: Items per step.
        seed: Of initial weights and batch order.
        given: Parameters of the classifier that are settings too; None is "not given".
        more: Other settings, by name.
    """
    said = {name: _plain(value) for name, value in given.items() if value is not None}
    fixed = {"method": method, "seed": seed, "probe": "off"}
    wishes = {name: _plain(value) for name, value in more.items()}
    return make_recipe(
        get_method(method).defaults,
        {"batch_size": batch_size},
        said,
        wishes,
        fixed,
        source="PlusOneClassifier",
    )


def _plain(value: Any) -> Any:
    """Numbers of numpy, as searches over parameters bring them, as numbers of Python."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return value
