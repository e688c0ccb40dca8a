"""Multi-label learning from one positive label per item.

    run = plusone.train("photos")  # a folder with a tag per photo
    plusone.predict(run, "new-photos").labels

    fitted = plusone.fit("digits", "gr")
    fitted.metrics["test_map"]

The public names are those of `__all__`. Each is imported when it is first used, so that importing
the package takes no time.
"""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    sys.path.pop(0)  # `python -m plusone`: nothing else is imported from the working folder

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plusone.version import __version__

if TYPE_CHECKING:
    from plusone import data, estimator, losses, methods, metrics, models
    from plusone.commands import Tags, audit, predict, review, suggest, train
    from plusone.data import Dataset
    from plusone.estimator import PlusOneClassifier
    from plusone.integrations.hub import PlusOneModel
    from plusone.methods import METHODS
    from plusone.metrics import evaluate
    from plusone.prediction.load import load_run
    from plusone.recipe import Recipe, make_recipe
    from plusone.results import RunResult
    from plusone.training.api import Fitted, fit

__all__ = [
    "METHODS",
    "Dataset",
    "Fitted",
    "PlusOneClassifier",
    "PlusOneModel",
    "Recipe",
    "RunResult",
    "Tags",
    "__version__",
    "audit",
    "data",
    "estimator",
    "evaluate",
    "fit",
    "load_run",
    "losses",
    "make_recipe",
    "methods",
    "metrics",
    "models",
    "predict",
    "review",
    "suggest",
    "train",
]

_HOMES = {
    "METHODS": "plusone.methods",
    "Dataset": "plusone.data",
    "Fitted": "plusone.training.api",
    "PlusOneClassifier": "plusone.estimator",
    "PlusOneModel": "plusone.integrations.hub",
    "Recipe": "plusone.recipe",
    "RunResult": "plusone.results",
    "Tags": "plusone.commands",
    "audit": "plusone.commands",
    "evaluate": "plusone.metrics",
    "fit": "plusone.training.api",
    "load_run": "plusone.prediction.load",
    "make_recipe": "plusone.recipe",
    "predict": "plusone.commands",
    "review": "plusone.commands",
    "suggest": "plusone.commands",
    "train": "plusone.commands",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"plusone.{name}")
    raise AttributeError(f"module 'plusone' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
