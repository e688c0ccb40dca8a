"""EPR: seen labels, and the right number of positives on average.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR, section 5.3, Eq. 10.

The paper leaves lambda open; the released program divides the seen labels' cost by L and takes
lambda = 1. Both minimise the same thing when the paper's lambda is L, which is the default here.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from plusone.errors import InputError
from plusone.losses import Variant, expected_positives
from plusone.methods._base import (
    VARIANTS,
    Method,
    MethodInfo,
    Options,
    Part,
    PublishedFigure,
    Range,
)
from plusone.methods._papers import (
    COLE,
    COLE_TABLE_1,
    LASD_TABLE_2,
    XIE_TABLE_2,
    XIE_TABLE_2_RESNET,
)
from plusone.types import Batch, Clock, Outputs


@dataclass(frozen=True)
class EprOptions(Options):
    """Weight of the count's penalty: None is L ("paper") or 1 ("released")."""

    lam: float | None = None
    variant: Variant = "paper"


class Epr(Method[EprOptions]):
    """Needs `expected_positives`."""

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        k, lam, variant = self.labels.expected_positives, self.options.lam, self.options.variant
        if k is None:
            raise InputError("the method epr needs expected_positives")
        if lam is None:
            lam = 1.0 if variant == "released" else float(self.labels.n_classes)
        return expected_positives(outs[0].logits, batch.observed, k=k, lam=lam, variant=variant)


INFO = MethodInfo(
    name="epr",
    build=Epr,
    options=EprOptions,
    paper=COLE,
    year=2021,
    summary="only seen labels cost, and the mean number of positives must be right",
    needs_k=True,
    summed=True,
    grid=({"variant": "released"}, {"lam": 100.0}),
    search_space={"variant": VARIANTS, "lam": Range(0.01, 100.0, log=True)},
    ablation=(
        Part("seen positives", {"lam": 0.0}),
        Part("seen positives + count of positives"),
    ),
    published=(
        PublishedFigure("linear", COLE_TABLE_1, 83.8, 62.6, 46.4, 18.0),
        PublishedFigure("finetune", LASD_TABLE_2, 85.15, 63.94, 45.41, 19.53),
        PublishedFigure("finetune", COLE_TABLE_1, 85.5, 63.3, 46.0, 20.0),
        PublishedFigure("finetune", XIE_TABLE_2_RESNET, 85.5, 63.3, 46.0, 20.0),
        PublishedFigure("labelwise", XIE_TABLE_2, 88.8, 72.7, 49.3, 23.1),
    ),
)
