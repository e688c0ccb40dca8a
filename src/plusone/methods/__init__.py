"""The method table: every way to learn from incomplete labels, by its short name."""

from __future__ import annotations

from difflib import get_close_matches

from plusone.errors import InputError
from plusone.methods import (
    crisp,
    em,
    en,
    epr,
    focal,
    gpr,
    gr,
    hill,
    lac,
    large_loss,
    lasd,
    mime,
    negatives,
    ranking,
    recovery,
    role,
    softmax,
    splc,
    vlpl,
    weight_norm,
)
from plusone.methods.base import Choice, Method, MethodInfo, Options, Part, PublishedFigure, Range

__all__ = [
    "METHODS",
    "Choice",
    "Method",
    "MethodInfo",
    "Options",
    "Part",
    "PublishedFigure",
    "Range",
    "get_method",
]

METHODS: dict[str, MethodInfo] = {
    info.name: info
    for info in (
        *negatives.INFOS,
        *weight_norm.INFOS,
        *focal.INFOS,
        hill.INFO,
        ranking.INFO,
        softmax.INFO,
        epr.INFO,
        role.INFO,
        crisp.INFO,
        *large_loss.INFOS,
        splc.INFO,
        *en.INFOS,
        *lasd.INFOS,
        *em.INFOS,
        *gr.INFOS,
        vlpl.INFO,
        gpr.INFO,
        lac.INFO,
        mime.INFO,
        *recovery.INFOS,
    )
}


def get_method(name: str) -> MethodInfo:
    """Looks a method up, refusing unknown names."""
    if name not in METHODS:
        near = get_close_matches(name.lower().replace("-", "_"), METHODS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"unknown method {name!r}; {hint}known: {', '.join(METHODS)}")
    return METHODS[name]
