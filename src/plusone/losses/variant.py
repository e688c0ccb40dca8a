"""Which text a loss follows where a paper and its authors' program disagree."""

from __future__ import annotations

from typing import Literal, get_args

Variant = Literal["paper", "released"]


def is_released(variant: Variant) -> bool:
    """Tells the two variants apart and refuses any other word.

    Args:
        variant: "paper" for the printed formula, "released" for the authors' program.

    Returns:
        True for "released".

    Raises:
        ValueError: If `variant` is neither of the two.

    >>> is_released("paper")
    False
    """
    if variant not in get_args(Variant):
        raise ValueError(f"variant must be one of {get_args(Variant)}, got {variant!r}")
    return variant == "released"
