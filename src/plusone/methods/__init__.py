"""The method table: every way to learn from incomplete labels, by its short name."""

from __future__ import annotations

from difflib import get_close_matches

from plusone.errors import InputError
from plusone.methods import (
    class_graph,
    crisp,
    em,
    en,
    epr,
    focal,
    full_weighted,
    gpr,
    gr,
    hill,
    ignore,
    lac,
    large_loss,
    lasd,
    maxent,
    mime,
    negatives,
    neighbours,
    nnpu,
    pr,
    recovery,
    role,
    sinr,
    smile,
    softmax,
    splc,
    vlpl,
    vpu,
    weight_norm,
)
from plusone.methods._base import Choice, Method, MethodInfo, Options, Part, PublishedFigure, Range
from plusone.methods._plugins import Plugins

__all__ = [
    "ALL_LABELS",
    "ASSUME_NEGATIVE",
    "CANDIDATES",
    "COMPARED",
    "METHODS",
    "Choice",
    "Method",
    "MethodInfo",
    "Options",
    "Part",
    "PublishedFigure",
    "Range",
    "get_method",
    "load_plugin",
    "plugin_of",
]

METHODS: dict[str, MethodInfo] = {
    info.name: info
    for info in (
        *negatives.INFOS,
        *weight_norm.INFOS,
        *focal.INFOS,
        hill.INFO,
        pr.INFO,
        softmax.INFO,
        maxent.INFO,
        sinr.INFO,
        full_weighted.INFO,
        nnpu.INFO,
        vpu.INFO,
        neighbours.INFO,
        epr.INFO,
        role.INFO,
        crisp.INFO,
        *large_loss.INFOS,
        splc.INFO,
        class_graph.INFO,
        *en.INFOS,
        *lasd.INFOS,
        *em.INFOS,
        *gr.INFOS,
        vlpl.INFO,
        gpr.INFO,
        lac.INFO,
        mime.INFO,
        smile.INFO,
        ignore.INFO,
        *recovery.INFOS,
    )
}

# The two ends that every method lies between.
ASSUME_NEGATIVE = "an"  # unseen labels are negative
ALL_LABELS = "bce"  # nothing is hidden

# Compared where nobody names methods: those that were best on some data set, and `an`.
CANDIDATES = ("gr", "em", "softmax", "wan", "hill", "en", "an")

# In a first comparison: from simple to good, and the upper bound.
COMPARED = ("an", "an_ls", "wan", "epr", "em", "gr", "softmax", "bce")


def get_method(name: str) -> MethodInfo:
    """Looks a method up, refusing unknown names."""
    if name not in METHODS:
        near = get_close_matches(name.lower().replace("-", "_"), METHODS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"unknown method {name!r}; {hint}known: {', '.join(METHODS)}; a method of your own "
            "needs its file, --plugin FILE"
        )
    return METHODS[name]


_PLUGINS = Plugins(METHODS)
_PLUGINS.load_installed()
load_plugin, plugin_of = _PLUGINS.load_file, _PLUGINS.origin
