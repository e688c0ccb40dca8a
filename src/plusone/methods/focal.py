"""Focal and asymmetric losses: labels that are already right weigh less.

Lin et al. 2017, Focal Loss for Dense Object Detection, ICCV (`focal`); Ridnik et al. 2021,
Asymmetric Loss for Multi-Label Classification, ICCV (`asl`, and `asl_ps` with its probability
shift). Unobserved labels count as negatives.
"""

from __future__ import annotations

from dataclasses import dataclass

from plusone.losses import asymmetric, focal
from plusone.methods._base import MethodInfo, Options, PublishedFigure, Range
from plusone.methods._papers import CHEN_TABLE_2, LASD_TABLE_2, LIN, RIDNIK, ZHOU_TABLE
from plusone.methods._pointwise import pointwise


@dataclass(frozen=True)
class Focal(Options):
    """`focal`."""

    gamma: float = 2.0


@dataclass(frozen=True)
class Asymmetric(Options):
    """`asl`: focusing of unobserved and of seen labels, and the probability shift."""

    gamma_neg: float = 4.0
    gamma_pos: float = 0.0
    shift: float = 0.0


@dataclass(frozen=True)
class ShiftedAsymmetric(Asymmetric):
    """`asl_ps`."""

    shift: float = 0.05


INFOS = (
    MethodInfo(
        name="focal",
        title="Focal",
        build=pointwise(focal),
        options=Focal,
        paper=LIN,
        year=2017,
        summary="assume negative, labels that are already right weigh less",
        small_rate=True,
        grid=({"gamma": 1.0}, {"gamma": 4.0}),
        search_space={"gamma": Range(0.5, 5.0)},
        published=(
            PublishedFigure("finetune", ZHOU_TABLE, 87.59, 68.79, 47.00, 19.80),
            PublishedFigure("finetune", LASD_TABLE_2, 87.03, 68.24, 46.22, 19.42),
            PublishedFigure("finetune", CHEN_TABLE_2, 87.59, 68.79, 47.00, 19.80),
        ),
    ),
    MethodInfo(
        name="asl",
        build=pointwise(asymmetric),
        options=Asymmetric,
        paper=RIDNIK,
        year=2021,
        summary="assume negative, easy negatives weigh much less than positives",
        small_rate=True,
        grid=({"gamma_neg": 2.0}, {"gamma_neg": 6.0}),
        search_space={"gamma_neg": Range(1.0, 8.0)},
        published=(
            PublishedFigure("finetune", ZHOU_TABLE, 87.76, 68.78, 46.93, 18.81),
            PublishedFigure("finetune", LASD_TABLE_2, 86.99, 67.90, 46.68, 19.72),
        ),
    ),
    MethodInfo(
        name="asl_ps",
        title="ASL+PS",
        build=pointwise(asymmetric),
        options=ShiftedAsymmetric,
        paper=RIDNIK,
        year=2021,
        summary="asl that also drops the easiest negatives (probability shift)",
        small_rate=True,
        grid=({"gamma_neg": 2.0}, {"shift": 0.2}),
        search_space={"gamma_neg": Range(1.0, 8.0), "shift": Range(0.0, 0.3)},
        published=(PublishedFigure("finetune", LASD_TABLE_2, 87.32, 68.46, 46.96, 20.11),),
    ),
)
