"""Finding missing labels, with calibrated probabilities."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plusone.suggestions.folder import Suggestions, read_suggestions, write_suggestions

if TYPE_CHECKING:
    from plusone.suggestions.find import Found, suggest

__all__ = ["Found", "Suggestions", "read_suggestions", "suggest", "write_suggestions"]


def __getattr__(name: str) -> Any:
    if name in ("Found", "suggest"):  # these import torch, which the review page does not need
        return getattr(import_module("plusone.suggestions.find"), name)
    raise AttributeError(f"module 'plusone.suggestions' has no attribute {name!r}")
