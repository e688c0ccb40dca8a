"""Choosing without a clean validation set: scores on seen labels, and a choice by one of them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plusone.selection.table import DEFAULT, SCORES, SelectionScore, get_score, score_name

if TYPE_CHECKING:
    from plusone.selection.choice import Candidate, Choice, choose

__all__ = [
    "DEFAULT",
    "SCORES",
    "Candidate",
    "Choice",
    "SelectionScore",
    "choose",
    "get_score",
    "score_name",
]


def __getattr__(name: str) -> Any:
    """`choose` trains, and training uses the scores: it is loaded when it is asked for."""
    if name in ("Candidate", "Choice", "choose"):
        return getattr(import_module("plusone.selection.choice"), name)
    raise AttributeError(f"module 'plusone.selection' has no attribute {name!r}")
