"""VLPL: EM, and labels with a high hint are positive pseudo-labels.

Xing et al. 2024, Vision-Language Pseudo-Labels for Single-Positive Multi-Label Learning, CVPR
Workshops, https://arxiv.org/abs/2310.15985. The paper's hints are s = softmax over the classes of
cos(image, text) / 0.01 by CLIP ViT-L/14 at 336 px; here they come from any file (`--hints`).

An unobserved label with a hint above theta costs beta (rho -log p + (1 - rho) -log(1 - p)), with
rho = 0.9; seen positives cost -log p and the rest -alpha H(p), as in EM (Zhou et al. 2022, Eq. 3;
the cost of a soft label is Eq. 8 there).

Left out: the negative pseudo-labels of the text, whose term is switched off in the released
program, and the program's second loss (EM_PL_ASL), which has a focal weight for each kind of label.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.losses import entropy_with_pseudo_labels, reduce
from plusone.methods._base import MethodInfo, Options, Part, PublishedFigure, Range
from plusone.methods._hinted import Hinted
from plusone.methods._papers import TRAN_TABLE, XING
from plusone.types import Batch, Clock, Outputs


@dataclass(frozen=True)
class VlplOptions(Options):
    """Published: alpha 0.2 on VOC, 0.1 on COCO and NUS, 0.01 on CUB; the others everywhere."""

    alpha: float = 0.2
    beta: float = 0.7
    theta: float = 0.3
    rho: float = 0.9


class Vlpl(Hinted[VlplOptions]):
    """Pseudo-labels are soft labels of `entropy_with_pseudo_labels`."""

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, z, y = self.options, outs[0].logits, batch.observed
        soft = torch.where(self.hints_of(batch) > o.theta, o.rho, -1.0)
        return {"loss": reduce(entropy_with_pseudo_labels(z, y, soft, alpha=o.alpha, beta=o.beta))}


INFO = MethodInfo(
    name="vlpl",
    build=Vlpl,
    options=VlplOptions,
    paper=XING,
    year=2024,
    summary="em, and labels with a high hint from elsewhere are pseudo positives",
    needs_hints=True,
    small_rate=True,
    no_curve="a hint decides which cost a label has",
    grid=({"alpha": 0.1}, {"theta": 0.6}),
    search_space={
        "alpha": Range(0.005, 0.5, log=True),
        "beta": Range(0.1, 1.0),
        "theta": Range(0.1, 0.9),
    },
    ablation=(Part("EM", {"theta": 1.0}), Part("EM + pseudo positives")),
    published=(PublishedFigure("finetune", TRAN_TABLE, 89.10, 71.45, 49.55, 24.02),),
)
