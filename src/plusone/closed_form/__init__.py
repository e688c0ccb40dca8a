"""Kernel ridge regression in closed form, label recovery, and what it tells about the labels.

The public names are those of `__all__`; each is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plusone.closed_form.estimates import (
        from_features,
        k_from_features,
        seen_label_scores,
        usable_rows,
    )

__all__ = ["from_features", "k_from_features", "seen_label_scores", "usable_rows"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("plusone.closed_form.estimates"), name)
    raise AttributeError(f"module 'plusone.closed_form' has no attribute {name!r}")
