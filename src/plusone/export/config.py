"""`config.json` of an exported model: everything a program needs to know about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plusone.engine.build import Predictor
from plusone.engine.thresholds import Thresholds, as_dict
from plusone.export.inputs import describe_input
from plusone.methods import get_method
from plusone.recipe import Recipe
from plusone.version import __version__

KIND = "plusone"
TOLD = (
    "method", "data", "seed", "val_map", "val_score", "test_map", "test", "best_epoch",
    "selected_on", "selected_by", "k", "k_from", "observation", "items", "mode", "options",
    "recovery", "rules",
)  # fmt: skip


def make_config(
    predictor: Predictor, metrics: Mapping[str, Any], thresholds: Thresholds
) -> dict[str, Any]:
    """The content of `config.json`, in the manner of Hugging Face where it has one.

    Nothing in it tells where files are on the machine it was made on, nor what items are called.
    """
    classes = predictor.classes
    info = get_method(predictor.recipe.method)
    return {
        "model_type": KIND,
        "architectures": ["plusone.Classifier"],
        "problem_type": "multi_label_classification",
        "num_labels": len(classes),
        "id2label": {str(number): name for number, name in enumerate(classes)},
        "label2id": {name: number for number, name in enumerate(classes)},
        "input": describe_input(predictor),
        "backbone": predictor.recipe.backbone if predictor.images else None,
        "thresholds": {"from": thresholds.origin, "by_class": as_dict(classes, thresholds)},
        "training": {key: metrics[key] for key in TOLD if key in metrics},
        "paper": info.paper,
        "recipe": public_recipe(predictor.recipe).model_dump(mode="json", exclude_defaults=True),
        "plusone_version": __version__,
    }


def public_recipe(recipe: Recipe) -> Recipe:
    """The settings without places on the machine they were used on."""
    weights = recipe.weights if recipe.weights in ("auto", "random") else Path(recipe.weights).name
    return recipe.model_copy(update={"cache_dir": None, "weights": weights})
