"""Assume negative and its relatives: what was not seen is a negative, more or less.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708: the references that see more labels (`bce`, `bce_ls`, `iun`, `iu`:
Eq. 5-7), AN (`an`, Eq. 8), AN with label smoothing (`an_ls`, Eq. 9; `an_als`, `n_ls`, Appendix A)
and weak AN (`wan`, section 5.1). `wan_sampled` is WAN by sampling: at every visit one random
unobserved label counts as a negative. Its expectation is `wan`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from plusone import losses
from plusone.methods._base import Method, MethodInfo, Options, PublishedFigure, Range
from plusone.methods._papers import (
    CHEN_TABLE_2,
    COLE,
    COLE_TABLE_1,
    COLE_TABLE_2,
    COLE_TABLE_A1,
    LASD_TABLE_2,
    XIE_TABLE_2,
    XIE_TABLE_2_RESNET,
    ZHOU_TABLE,
)
from plusone.methods._pointwise import pointwise
from plusone.seeds import generator
from plusone.types import Batch, Clock, Outputs


@dataclass(frozen=True)
class Smoothing(Options):
    """`bce_ls`, `an_ls`: eps of the paper; "released" smooths by eps instead of eps / 2."""

    eps: float = 0.1
    variant: losses.Variant = "paper"


@dataclass(frozen=True)
class AsymmetricSmoothing(Options):
    """`an_als`: smoothing of seen labels and of assumed negatives."""

    eps_p: float = 0.1
    eps_n: float = 0.1
    variant: losses.Variant = "paper"


@dataclass(frozen=True)
class NegativeSmoothing(AsymmetricSmoothing):
    """`n_ls`: only assumed negatives are smoothed."""

    eps_p: float = 0.0


@dataclass(frozen=True)
class Weak(Options):
    """`wan`: weight of an assumed negative; None is 1 / (L - 1)."""

    gamma: float | None = None


def smoothed_assume_negative(
    z: Tensor, y: Tensor, *, eps: float = 0.1, variant: losses.Variant = "paper"
) -> Tensor:
    """`an_ls`: one eps for seen labels and assumed negatives."""
    return losses.assume_negative_smoothed(z, y, eps_p=eps, eps_n=eps, variant=variant)


class SampledNegative(Method[Options]):
    """The draw depends on the seed and the clock alone, so a step can be repeated."""

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        draw = generator(self.labels.seed, "negatives", clock.stage, clock.epoch, clock.step)
        y = losses.sample_negative(batch.observed, generator=draw)
        return {"loss": losses.reduce(losses.observed_bce(outs[0].logits, y))}


INFOS = (
    MethodInfo(
        name="bce",
        build=pointwise(losses.observed_bce),
        options=Options,
        paper=COLE,
        year=2021,
        summary="reference: cross-entropy with all labels seen",
        scheme="all",
        published=(
            PublishedFigure("linear", COLE_TABLE_1, 86.7, 70.0, 50.7, 29.1),
            PublishedFigure("finetune", ZHOU_TABLE, 89.42, 76.78, 52.08, 30.90),
            PublishedFigure("finetune", COLE_TABLE_1, 89.1, 75.8, 52.6, 32.1),
        ),
    ),
    MethodInfo(
        name="bce_ls",
        build=pointwise(losses.observed_bce),
        options=Smoothing,
        paper=COLE,
        year=2021,
        summary="reference: all labels seen, with label smoothing",
        scheme="all",
        small_rate=True,
        grid=({"eps": 0.05}, {"eps": 0.2}),
        search_space={"eps": Range(0.01, 0.4)},
        published=(
            PublishedFigure("linear", COLE_TABLE_1, 87.6, 70.2, 51.7, 29.3),
            PublishedFigure("finetune", COLE_TABLE_1, 90.0, 76.8, 53.5, 32.6),
        ),
    ),
    MethodInfo(
        name="iun",
        build=pointwise(losses.observed_bce),
        options=Options,
        paper=COLE,
        year=2021,
        summary="reference: one positive and all true negatives seen",
        scheme="positives_and_negatives(1, None)",
        published=(
            PublishedFigure("linear", COLE_TABLE_1, 86.4, 67.0, 49.0, 19.4),
            PublishedFigure("finetune", COLE_TABLE_1, 87.1, 70.5, 46.9, 21.3),
            PublishedFigure("finetune", ZHOU_TABLE, 87.60, 71.39, 46.45, 20.65),
        ),
    ),
    MethodInfo(
        name="iu",
        build=pointwise(losses.observed_bce),
        options=Options,
        paper=COLE,
        year=2021,
        summary="reference: one positive and one negative seen, the rest ignored",
        scheme="positives_and_negatives(1, 1)",
        published=(
            PublishedFigure("linear", COLE_TABLE_1, 82.6, 60.8, 43.6, 16.1),
            PublishedFigure("finetune", COLE_TABLE_1, 83.2, 59.7, 42.9, 17.9),
        ),
    ),
    MethodInfo(
        name="an",
        build=pointwise(losses.assume_negative),
        options=Options,
        paper=COLE,
        year=2021,
        summary="assume negative: whatever was not seen is a negative",
        published=(
            PublishedFigure("linear", COLE_TABLE_1, 84.2, 62.3, 46.2, 17.2),
            PublishedFigure("finetune", ZHOU_TABLE, 85.89, 64.92, 42.27, 18.31),
            PublishedFigure("finetune", COLE_TABLE_1, 85.1, 64.1, 42.0, 19.1),
            PublishedFigure("finetune", LASD_TABLE_2, 85.89, 64.92, 42.27, 18.31),
            PublishedFigure("finetune", CHEN_TABLE_2, 85.89, 64.92, 42.49, 18.66),
            PublishedFigure("finetune", XIE_TABLE_2_RESNET, 85.1, 64.1, 42.0, 19.1),
            PublishedFigure("labelwise", XIE_TABLE_2, 87.6, 72.3, 48.5, 18.6),
            PublishedFigure(
                "linear", COLE_TABLE_2, 85.8, 63.8, 49.3, 16.8, scores="training labels"
            ),
        ),
    ),
    MethodInfo(
        name="an_ls",
        build=pointwise(smoothed_assume_negative),
        options=Smoothing,
        paper=COLE,
        year=2021,
        summary="assume negative with label smoothing",
        small_rate=True,
        grid=({"eps": 0.2}, {"eps": 0.4}),
        search_space={"eps": Range(0.01, 0.5)},
        published=(
            PublishedFigure("linear", COLE_TABLE_1, 85.3, 64.8, 48.5, 15.4),
            PublishedFigure("finetune", ZHOU_TABLE, 87.90, 67.15, 43.77, 16.26),
            PublishedFigure("linear_init", COLE_TABLE_1, 86.5, 69.2, 50.5, 16.6),
            PublishedFigure("finetune", COLE_TABLE_1, 86.7, 66.9, 44.9, 17.9),
            PublishedFigure("finetune", LASD_TABLE_2, 87.90, 67.15, 43.77, 16.26),
            PublishedFigure("finetune", CHEN_TABLE_2, 87.55, 67.07, 43.62, 16.45),
            PublishedFigure("linear_init", XIE_TABLE_2_RESNET, 86.5, 69.2, 50.5, 16.6),
            PublishedFigure("labelwise", XIE_TABLE_2, 88.0, 70.9, 47.1, 16.3),
            PublishedFigure(
                "linear", COLE_TABLE_2, 86.9, 65.4, 49.7, 17.4, scores="training labels"
            ),
        ),
    ),
    MethodInfo(
        name="an_als",
        build=pointwise(losses.assume_negative_smoothed),
        options=AsymmetricSmoothing,
        paper=COLE,
        year=2021,
        summary="assume negative, seen and assumed labels smoothed apart",
        small_rate=True,
        grid=({"eps_p": 0.0, "eps_n": 0.2}, {"eps_p": 0.1, "eps_n": 0.3}),
        search_space={"eps_p": Range(0.0, 0.3), "eps_n": Range(0.0, 0.5)},
    ),
    MethodInfo(
        name="n_ls",
        build=pointwise(losses.assume_negative_smoothed),
        options=NegativeSmoothing,
        paper=COLE,
        year=2021,
        summary="assume negative, only the assumed negatives smoothed",
        small_rate=True,
        grid=({"eps_n": 0.2}, {"eps_n": 0.4}),
        search_space={"eps_n": Range(0.01, 0.5)},
        published=(
            PublishedFigure("linear", COLE_TABLE_A1, 85.0, 64.4),
            PublishedFigure("finetune", ZHOU_TABLE, 88.12, 67.15, 43.86, 16.82),
            PublishedFigure("finetune", COLE_TABLE_A1, 87.7, 67.6),
        ),
    ),
    MethodInfo(
        name="wan",
        build=pointwise(losses.weak_negative),
        options=Weak,
        paper=COLE,
        year=2021,
        summary="weak assume negative: all assumed negatives weigh as much as one positive",
        grid=({"gamma": 0.1}, {"gamma": 0.3}),
        search_space={"gamma": Range(0.01, 0.5, log=True)},
        published=(
            PublishedFigure("linear", COLE_TABLE_1, 84.1, 63.1, 45.8, 17.9),
            PublishedFigure("finetune", ZHOU_TABLE, 86.98, 67.59, 45.71, 19.15),
            PublishedFigure("finetune", COLE_TABLE_1, 86.5, 64.8, 46.3, 20.3),
            PublishedFigure("finetune", LASD_TABLE_2, 86.98, 67.59, 45.71, 19.15),
            PublishedFigure("finetune", XIE_TABLE_2_RESNET, 86.5, 64.8, 46.3, 20.3),
            PublishedFigure("labelwise", XIE_TABLE_2, 89.2, 73.5, 48.5, 22.5),
        ),
    ),
    MethodInfo(
        name="wan_sampled",
        title="WAN, sampled",
        build=SampledNegative,
        options=Options,
        paper=COLE,
        year=2021,
        summary="one random unobserved label per visit counts as a negative",
        alone="each run draws its own negatives",
        no_curve="it draws the label it charges at random; on average it is wan",
    ),
)
