"""A predictor as plain values and NumPy arrays, for files that name no class of torch or ours."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from plusone.build import blank_labels
from plusone.data.hierarchy import Hierarchy
from plusone.errors import InputError
from plusone.prediction.load import Predictor, with_weights
from plusone.prediction.run_folder import MOST_VALUES, for_this_computer
from plusone.probabilities.calibration import Calibration
from plusone.recipe import make_recipe

SOURCE = "the saved classifier"


def plain_state(predictor: Predictor) -> dict[str, Any]:
    """A predictor on vectors as what JSON can hold, and arrays by name.

    The keys are `recipe` (TOML), `classes`, `shape`, `k` (expected positives), `calibration` (as in
    `calibration.json`), `parents` (numbers of classes) and `weights`, the tensors of the model and
    of its method.
    """
    parts = {"model": predictor.model, "method": predictor.method}
    tensors = {
        f"{p}.{name}": x for p, part in parts.items() for name, x in part.state_dict().items()
    }
    return {
        "recipe": predictor.recipe.to_toml(),
        "classes": [*predictor.classes],
        "shape": [*predictor.shape],
        "k": predictor.method.labels.expected_positives,
        "calibration": predictor.calibration.to_json(predictor.classes),
        "parents": None if predictor.hierarchy is None else [*predictor.hierarchy.parent],
        "weights": {name: x.detach().cpu().numpy() for name, x in tensors.items()},
    }


def from_plain_state(state: Mapping[str, Any]) -> Predictor:
    """The predictor of a `plain_state`, which may come from elsewhere; it computes on the CPU.

    Raises:
        InputError: The values are not those of one predictor.
    """
    try:
        recipe = for_this_computer(make_recipe(tomllib.loads(state["recipe"]), source=SOURCE))
        classes, shape = tuple(map(str, state["classes"])), tuple(map(int, state["shape"]))
        tensors = {str(name): torch.tensor(x) for name, x in state["weights"].items()}
        calibration = Calibration.from_json(state["calibration"], classes, SOURCE)
        hierarchy = _hierarchy(state["parents"], len(classes))
        k = None if state["k"] is None else float(state["k"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{SOURCE} is damaged ({type(error).__name__}: {error})") from None
    if not all(0 < side <= MOST_VALUES for side in shape):
        raise InputError(f"{SOURCE}: its inputs have the shape {shape}")
    labels = blank_labels(len(classes), k, recipe.seed, shape)
    size = sum(x.nbytes for x in tensors.values())
    model, method = with_weights(
        recipe, labels, shape, tensors, images=False, size=size, source=SOURCE
    )
    model = model.eval()
    return Predictor(recipe, classes, shape, False, model, method, calibration, hierarchy=hierarchy)


def _hierarchy(parents: Sequence[Any] | None, n_classes: int) -> Hierarchy | None:
    """The parents of the classes as a hierarchy; `ValueError` for those that cannot be."""
    if parents is None:
        return None
    parent = tuple(None if up is None else int(up) for up in parents)
    if len(parent) != n_classes or not all(up is None or 0 <= up < n_classes for up in parent):
        raise ValueError("its parents are not classes")
    for label in range(n_classes):
        up, steps = parent[label], 0
        while up is not None:
            up, steps = parent[up], steps + 1
            if steps > n_classes:
                raise ValueError("its parents lead in a circle")
    return Hierarchy(parent)
