"""LAS and LASD: weights that make learning from one positive consistent with full labels.

Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with One-Positive
Annotations (submission to ICLR 2023), Eq. 5-8, Theorem 5.4.

lambda- is no free option: it follows from lambda+, the expected number of positives k and the
number of classes (Theorem 5.4), so `lasd` needs `expected_positives`. The consistency term compares
the plain image with two augmentations. The paper does not say which: here each is a mirror image
with probability 1/2, the augmentation of Cole et al., so that all three are equal for a quarter of
the images of a step. `augment="strong"` uses the strong view instead (mirror, Cutout, RandAugment,
colours), our own choice as well; on feature vectors, which have no augmentation, it is zero,
so set `alpha=0` there to save two of three forward passes.

Text and figures of the paper's Table 3 disagree about what is switched off: rows A and B have the
figures of AN and ASL in Table 2, while by the text, Eq. 5 and section 5 they are ASL and LAS.
The ablation has both readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from plusone.errors import InputError
from plusone.losses import balanced_lambda, consistency, leveraged_asymmetric, reduce
from plusone.methods._base import Method, MethodInfo, Options, Part, PublishedFigure, Range
from plusone.methods._papers import LASD, LASD_TABLE_2
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels

Augment = Literal["mirror", "strong"]


@dataclass(frozen=True)
class LasOptions(Options):
    """lam: weight of unobserved labels; None is 1 / (L - 1), balanced for one positive."""

    lam: float | None = None
    gamma_pos: float = 0.0
    gamma_neg: float = 4.0


@dataclass(frozen=True)
class LasdOptions(Options):
    """The settings published for VOC; docs/methods/correcting.md has those of other data sets."""

    lam_plus: float = 0.10
    tau: float = 0.90
    alpha: float = 0.70
    gamma_pos: float = 0.0
    gamma_neg: float = 4.0
    augment: Augment = "mirror"

    def __post_init__(self) -> None:
        if self.augment not in get_args(Augment):
            listed = ", ".join(get_args(Augment))
            raise ValueError(f"augment must be one of {listed}, got {self.augment}")


class Las(Method[LasOptions]):
    """Eq. 5: no disambiguation."""

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, lam = self.options, self.options.lam
        if lam is None:
            lam = balanced_lambda(0.0, k=1.0, n_classes=max(self.labels.n_classes, 2))
        losses = leveraged_asymmetric(
            outs[0].logits,
            batch.observed,
            lam_plus=0.0,
            lam_minus=lam,
            tau=1.0,
            gamma_pos=o.gamma_pos,
            gamma_neg=o.gamma_neg,
        )
        return {"loss": reduce(losses, "item")}


class Lasd(Method[LasdOptions]):
    """Eq. 6 plus, unless alpha is 0, the consistency of Eq. 7."""

    def __init__(self, labels: TrainLabels, options: LasdOptions) -> None:
        super().__init__(labels, options)
        if labels.expected_positives is None:
            raise InputError("the method lasd needs expected_positives")
        self.k = min(max(labels.expected_positives, 1.0), max(labels.n_classes - 1, 1.0))
        self.views = _views(options)

    def begin_stage(self, stage: Stage) -> None:
        super().begin_stage(stage)
        self.views = _views(self.options)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, n_classes = self.options, max(self.labels.n_classes, 2)
        losses = leveraged_asymmetric(
            outs[0].logits,
            batch.observed,
            lam_plus=o.lam_plus,
            lam_minus=balanced_lambda(o.lam_plus, k=self.k, n_classes=n_classes),
            tau=o.tau,
            gamma_pos=o.gamma_pos,
            gamma_neg=o.gamma_neg,
        )
        terms = {"loss": reduce(losses, "item")}
        if len(outs) > 1:
            distances = consistency(*(out.logits for out in outs))
            terms["consistency"] = o.alpha * reduce(distances, "item")
        return terms


def _views(options: LasdOptions) -> tuple[str, ...]:
    if not options.alpha:
        return ("weak",)
    return (
        ("plain", "strong", "strong") if options.augment == "strong" else ("plain", "weak", "weak")
    )


INFOS = (
    MethodInfo(
        name="las",
        build=Las,
        options=LasOptions,
        paper=LASD,
        year=2023,
        summary="asl with leveraged (down-weighted) unobserved labels",
        small_rate=True,
        summed=True,
        grid=({"gamma_neg": 2.0}, {"gamma_neg": 1.0}),
        search_space={"gamma_neg": Range(0.5, 6.0)},
    ),
    MethodInfo(
        name="lasd",
        build=Lasd,
        options=LasdOptions,
        paper=LASD,
        year=2023,
        summary="las, confident labels change sides, and predictions agree between views",
        needs_k=True,
        small_rate=True,
        summed=True,
        grid=({"lam_plus": 0.03}, {"tau": 0.95}, {"gamma_neg": 2.0}),
        search_space={
            "lam_plus": Range(0.003, 0.3, log=True),
            "tau": Range(0.85, 0.99),
            "alpha": Range(0.01, 1.0, log=True),
            "gamma_neg": Range(0.5, 6.0),
        },
        ablation=(
            Part(
                "none: AN",
                method="an",
                paper="LASD Table 3, A by its figure",
                published={"voc": 85.89},
            ),
            Part(
                "none: ASL",
                method="asl",
                paper="LASD Table 3, A by its text, B by its figure",
                published={"voc": 86.99},
            ),
            Part(
                "leverage",
                {"tau": 1.0, "alpha": 0.0},
                paper="LASD Table 3, B by its text",
                published={"voc": 86.99},
            ),
            Part(
                "leverage + disambiguation",
                {"alpha": 0.0},
                paper="LASD Table 3, C",
                published={"voc": 88.70},
            ),
            Part(
                "leverage + disambiguation + consistency",
                paper="LASD Table 3, D",
                published={"voc": 89.53},
            ),
        ),
        on_features=(
            "On features the augmented views are the same as the plain one: the consistency is "
            "zero, and rows with and without it are the same training."
        ),
        published=(PublishedFigure("finetune", LASD_TABLE_2, 89.53, 72.22, 50.52, 22.01),),
    ),
)
