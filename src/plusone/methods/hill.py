"""Hill: assumed negatives that the model is confident about are left alone.

Zhang et al. 2021, Simple and Robust Loss Design for Multi-Label Learning with Missing Labels,
https://arxiv.org/abs/2112.07368: the hill loss for unobserved labels, the focal margin loss for
seen positives. SPLC, of the same paper, is in `plusone.methods.splc`.
"""

from __future__ import annotations

from dataclasses import dataclass

from plusone.losses import hill
from plusone.methods._base import MethodInfo, Options, PublishedFigure, Range
from plusone.methods._papers import CHEN_TABLE_2, ZHANG
from plusone.methods._pointwise import pointwise


@dataclass(frozen=True)
class Hill(Options):
    """Lambda of the hill; margin and focusing of the seen positives."""

    lam: float = 1.5
    margin: float = 1.0
    gamma: float = 2.0


INFO = MethodInfo(
    name="hill",
    title="Hill",
    build=pointwise(hill),
    options=Hill,
    paper=ZHANG,
    year=2021,
    summary="assume negative, but confident predictions are left alone (hill shape)",
    grid=({"margin": 0.0, "gamma": 0.0}, {"lam": 1.2}),
    search_space={"margin": Range(0.0, 2.0), "gamma": Range(0.0, 4.0), "lam": Range(1.0, 2.0)},
    published=(PublishedFigure("finetune", CHEN_TABLE_2, 87.71, 71.43),),
)
