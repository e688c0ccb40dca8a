"""Finding missing labels, with calibrated probabilities."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plusone.suggest.folder import Suggestions, read_suggestions, write_suggestions

if TYPE_CHECKING:
    from plusone.suggest.find import Found, suggest

__all__ = ["Found", "Suggestions", "read_suggestions", "suggest", "write_suggestions"]


def __getattr__(name: str) -> Any:
    if name in ("Found", "suggest"):  # these import torch, which the review page does not need
        return getattr(import_module("plusone.suggest.find"), name)
    raise AttributeError(f"module 'plusone.suggest' has no attribute {name!r}")
