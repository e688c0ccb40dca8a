"""Multi-label learning from one positive label per item.

    fitted = plusone.fit("digits", "gr")
    fitted.metrics["test_map"]

Names are loaded when they are first used, so that importing the package is instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plusone.version import __version__

if TYPE_CHECKING:
    from plusone.estimator import PlusOneClassifier
    from plusone.methods import METHODS
    from plusone.metrics import evaluate
    from plusone.training.api import Fitted, fit

__all__ = ["METHODS", "Fitted", "PlusOneClassifier", "__version__", "evaluate", "fit"]

_HOMES = {
    "METHODS": "plusone.methods",
    "Fitted": "plusone.training.api",
    "PlusOneClassifier": "plusone.estimator",
    "evaluate": "plusone.metrics",
    "fit": "plusone.training.api",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in ("data", "losses", "methods", "metrics", "models", "engine", "estimator"):
        return import_module(f"plusone.{name}")
    raise AttributeError(f"module 'plusone' has no attribute {name!r}")
