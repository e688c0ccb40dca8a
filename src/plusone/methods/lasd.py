"""LAS and LASD: weights that make learning from one positive consistent with full labels.

Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with One-Positive
Annotations (submission to ICLR 2023), Eq. 5-8, Theorem 5.4.

lambda- is no free option: it follows from lambda+, the expected number of positives k and the
number of classes (Theorem 5.4), so `lasd` needs `expected_positives`. The consistency term compares
the plain image with two augmentations; on feature vectors, which have no augmentation, it is zero,
so set `alpha=0` there to save two of three forward passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.errors import InputError
from plusone.losses import balanced_lambda, consistency, leveraged_asymmetric
from plusone.losses.closed_form import elementwise
from plusone.methods.base import Options
from plusone.methods.itemwise import Itemwise
from plusone.types import Clock, Stage, TrainLabels


@dataclass(frozen=True)
class LasOptions(Options):
    """lam: weight of unobserved labels; None is 1 / (L - 1), balanced for one positive."""

    lam: float | None = None
    gamma_pos: float = 0.0
    gamma_neg: float = 4.0


@dataclass(frozen=True)
class LasdOptions(Options):
    """The settings published for VOC; docs/methods.md has those of the other data sets."""

    lam_plus: float = 0.10
    tau: float = 0.90
    alpha: float = 0.70
    gamma_pos: float = 0.0
    gamma_neg: float = 4.0


class Las(Itemwise):
    """Eq. 5: no disambiguation."""

    reduction = "item"

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        o, n_classes = self.options, self.labels.n_classes
        lam = (
            o.lam if o.lam is not None else balanced_lambda(0.0, k=1.0, n_classes=max(n_classes, 2))
        )
        return leveraged_asymmetric(
            logits,
            *known,
            lam_plus=0.0,
            lam_minus=lam,
            tau=1.0,
            gamma_pos=o.gamma_pos,
            gamma_neg=o.gamma_neg,
        )


class Lasd(Itemwise):
    """Eq. 6 plus, unless alpha is 0, the consistency of Eq. 7."""

    reduction = "item"

    def __init__(self, labels: TrainLabels, options: LasdOptions) -> None:
        super().__init__(labels, options)
        if labels.expected_positives is None:
            raise InputError("the method lasd needs expected_positives")
        self.views = _views(options)

    def begin_stage(self, stage: Stage) -> None:
        super().begin_stage(stage)
        self.views = _views(self.options)

    def table(self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock) -> Tensor:
        o, n_classes = self.options, self.labels.n_classes
        k = self.labels.expected_positives
        assert k is not None
        lam_minus = balanced_lambda(
            o.lam_plus, k=min(max(k, 1.0), max(n_classes - 1, 1.0)), n_classes=max(n_classes, 2)
        )
        return leveraged_asymmetric(
            logits,
            *known,
            lam_plus=o.lam_plus,
            lam_minus=lam_minus,
            tau=o.tau,
            gamma_pos=o.gamma_pos,
            gamma_neg=o.gamma_neg,
        )

    def tables(
        self, logits: tuple[Tensor, ...], known: tuple[Tensor, ...], clock: Clock
    ) -> dict[str, Tensor]:
        terms = super().tables(logits, known, clock)
        first, *others = logits
        if not others:
            return terms
        if all(other is first for other in others):  # views of feature vectors
            return terms | {"consistency": elementwise(first, known[0], _agreed)}
        return terms | {"consistency": consistency(*logits)}

    def weight(self, term: str) -> float:
        return float(self.options.alpha) if term == "consistency" else 1.0


def _agreed(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The distance of a view from itself, and its derivative."""
    return torch.zeros_like(z), torch.zeros_like(z)


def _views(options: LasdOptions) -> tuple[str, ...]:
    return ("plain", "weak", "weak") if options.alpha else ("weak",)
