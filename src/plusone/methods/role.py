"""ROLE: the labels of every training item are estimated while the classifier learns.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR, section 5.4 and the
implementation notes of section 6.1.

The estimate learns at 10 times the learning rate. As published it is a parameter `[N, L]` that
starts uniform between probabilities 0.4 and 0.6, a seen positive at 0.995 and a seen negative at
0.005. The EPR part follows the released program ("released": seen labels divided by L, lambda 1),
because the paper leaves lambda open and its figures come from that program. As there, the dense
Adam moves rows outside the batch too.

The options `estimator="factored"` and `"network"` need less memory; section 7 of the paper names
them as open. How they differ is said in `plusone.methods.estimators` and, for the row-wise updates
of the factored one, in `plusone.training.optim`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.errors import InputError
from plusone.losses import online_estimation
from plusone.methods.base import Method, Options
from plusone.methods.estimators import (
    DenseEstimator,
    Estimator,
    FactoredEstimator,
    NetworkEstimator,
    with_seen,
)
from plusone.models.heads import Head
from plusone.types import Batch, Clock, Outputs, TrainLabels

ESTIMATORS = ("dense", "factored", "network")
BLOCK = 1 << 22  # entries of the estimate computed at once


@dataclass(frozen=True)
class RoleOptions(Options):
    """Weight of the count's penalty, the EPR variant, and the label estimator.

    Args:
        lam: Weight of the penalty on the number of positives.
        variant: "released" or "paper", see `plusone.losses.expected_positives`.
        estimator: "dense", "factored" or "network".
        rank: Rank of the factored estimator.
        hidden: Hidden units of the network estimator.
    """

    lam: float = 1.0
    variant: str = "released"
    estimator: str = "dense"
    rank: int = 64
    hidden: int = 256

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise ValueError(
                f"estimator cannot be {self.estimator!r}; known: {', '.join(ESTIMATORS)}"
            )
        for name in ("rank", "hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


class Role(Method):
    """Needs `expected_positives`; `estimates()` gives the recovered labels."""

    lr_mult = 10.0
    fixed = ("estimator", "rank", "hidden")

    def __init__(self, labels: TrainLabels, options: RoleOptions) -> None:
        super().__init__(labels, options)
        if labels.expected_positives is None:
            raise InputError("the method role needs expected_positives")
        self.estimator: Estimator
        if options.estimator == "dense":
            self.estimator = DenseEstimator(labels)
        elif options.estimator == "factored":
            self.estimator = FactoredEstimator(
                labels.n_items, labels.n_classes, options.rank, labels.seed
            )

    def make_head(self, dim: int) -> Head:
        """The linear head; the network estimator is made here, where the width is known."""
        if self.options.estimator == "network":
            self.estimator = NetworkEstimator(dim, self.labels, self.options.hidden)
        return super().make_head(dim)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        k, o = self.labels.expected_positives, self.options
        assert k is not None
        phi = self.estimator(batch.index, outs[0].features.detach())
        if not self.estimator.holds_seen:
            phi = with_seen(phi, batch.observed)
        return online_estimation(
            outs[0].logits, phi, batch.observed, k=k, lam=o.lam, variant=o.variant
        )

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        self.estimator.remember(batch.index, outs[0].features)

    @torch.no_grad()
    def estimates(self, rows: Tensor | None = None) -> Tensor | None:
        """The recovered labels `[N, L]`; None from a network that could not keep them.

        Besides the result it needs memory for one block of rows.
        """
        if not self.estimator.recalls:
            return None
        rows = torch.arange(self.labels.n_items) if rows is None else rows
        found = torch.empty(len(rows), self.labels.n_classes)
        step = max(1, BLOCK // self.labels.n_classes)
        for start in range(0, len(rows), step):
            index = rows[start : start + step]
            phi = self.estimator.recall(index)
            if not self.estimator.holds_seen:
                observed = torch.from_numpy(self.labels.observed.dense(index.numpy()))
                phi = with_seen(phi, observed)
            found[start : start + step] = phi
        return found.sigmoid_()
