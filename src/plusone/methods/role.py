"""ROLE: the labels of every training item are estimated while the classifier learns.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR, section 5.4 and the
implementation notes of section 6.1.

The estimate learns at 10 times the learning rate. As published it is a parameter `[N, L]` that
starts uniform between probabilities 0.4 and 0.6, a seen positive at 0.995. The EPR part is that of
Eq. 11 ("paper": seen labels are summed over classes), with the released program's lambda of 1: the
paper leaves lambda open. That program also divides the cost of the seen labels by L ("released"),
which had the lower mAP on VOC, see `docs/evidence/reproduced.md`. As in that program, the dense
Adam moves rows outside the batch too.

Two other estimators need less memory; section 7 of the paper names both ways without trying them.
With N items, L classes, rank r, feature width D and H hidden units:

| estimator | logit of item n, class l | numbers to learn |
| --- | --- | --- |
| `dense` | phi[n, l], as published | N L |
| `factored` | u[n] . v[l] + a[n] + b[l] | (N + L) (r + 1) |
| `network` | a small network on the features of item n | (D + 1) H + (H + 1) L |

Only `dense` can start a seen positive at its own value and move it from there. For the other two a
seen positive is fixed at that start, 0.995: see `with_seen`. Row-wise updates of the factored
one: see `plusone.training.optim`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from plusone.device import CPU
from plusone.errors import InputError
from plusone.losses import Variant, online_estimation
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
    CHEN_TABLE_2,
    COLE,
    COLE_TABLE_1,
    COLE_TABLE_2,
    LASD_TABLE_2,
    XIE_TABLE_2,
    XIE_TABLE_2_RESNET,
    ZHOU_TABLE,
)
from plusone.methods._tables import rows_of, set_rows
from plusone.models.heads import Head, pooled
from plusone.seeds import generator, seeded
from plusone.types import Batch, Clock, Outputs, TrainLabels

ESTIMATORS = ("dense", "factored", "network")
SPREAD = math.log(0.6 / (1 - 0.6))  # unseen labels start between probabilities 0.4 and 0.6
SEEN = math.log(0.995 / (1 - 0.995))  # a seen positive starts at 0.995
KEPT = 1 << 26  # `network` remembers its estimates of all items up to this many entries
BLOCK = 1 << 22  # entries of the estimate computed at once


@dataclass(frozen=True)
class RoleOptions(Options):
    """Weight of the count's penalty, the EPR variant, and the label estimator.

    Args:
        lam: Weight of the penalty on the number of positives.
        variant: "paper" or "released", see `plusone.losses.expected_positives`.
        estimator: "dense", "factored" or "network".
        rank: Rank of the factored estimator.
        hidden: Hidden units of the network estimator.
    """

    lam: float = 1.0
    variant: Variant = "paper"
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


def with_seen(phi: Tensor, observed: Tensor) -> Tensor:
    """The estimate with the seen positives in their places.

    A seen negative is learned like an unobserved label, through its cost: the classifier is pulled
    to the estimate with full weight, and a seen negative may weigh less
    (`plusone.losses.weighting`).

    Args:
        phi: Logits `[B, L]`.
        observed: Seen labels `[B, L]` in {1, 0, -1}.

    >>> with_seen(torch.zeros(1, 3), torch.tensor([[1, 0, -1]])).sigmoid()
    tensor([[0.9950, 0.5000, 0.5000]])
    """
    return torch.where(observed > 0, SEEN, phi)


class Estimator(nn.Module):
    """Logits of the label estimates of some training items."""

    holds_seen: ClassVar[bool] = False  # whether seen labels are part of what it learns
    recalls: bool = True  # whether `recall` can be called

    def forward(self, index: Tensor, features: Tensor) -> Tensor:
        """The estimate that is trained.

        Args:
            index: Rows of the items among the training items, int64 `[B]`.
            features: What the classifier's head received, `[B, D]` or `[B, D, ...]`.

        Returns:
            Logits `[B, L]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward()")

    def remember(self, index: Tensor, features: Tensor) -> None:
        """Called after every step, without gradients."""

    def recall(self, index: Tensor) -> Tensor:
        """The estimate, logits `[B, L]`, without the help of features."""
        raise NotImplementedError(f"{type(self).__name__} must define recall()")


class DenseEstimator(Estimator):
    """One parameter per item and class, the paper's choice."""

    holds_seen = True

    def __init__(self, labels: TrainLabels) -> None:
        super().__init__()
        draw = generator(labels.seed, "role")
        start = torch.empty(labels.n_items, labels.n_classes).uniform_(
            -SPREAD, SPREAD, generator=draw
        )
        self.phi = nn.Parameter(with_seen(start, torch.from_numpy(labels.observed.dense())))

    def forward(self, index: Tensor, features: Tensor) -> Tensor:
        return rows_of(self.phi, index)

    def recall(self, index: Tensor) -> Tensor:
        return rows_of(self.phi, index)


class FactoredEstimator(Estimator):
    """A matrix of rank r plus one bias per item and per class.

    It starts with the mean and the variance of the paper's uniform start. Class factors start at
    size 1 and carry the scale; item factors start small. A visit moves an item's factors by about
    the learning rate in each entry whatever their gradient is, so large class factors make up for
    the drift between visits that a dense parameter has and row-wise updates lack.

    Item tables have sparse gradients; the optimizer updates their rows alone.

    Args:
        n_items: `N`.
        n_classes: `L`.
        rank: r; more than L would describe nothing new, so it is cut there.
        seed: Decides the start.
    """

    def __init__(self, n_items: int, n_classes: int, rank: int, seed: int) -> None:
        super().__init__()
        rank = min(rank, n_classes)
        draw = generator(seed, "role")
        size = SPREAD / math.sqrt(3 * rank)
        self.items = _table(torch.empty(n_items, rank).normal_(0, size, generator=draw))
        self.item_bias = _table(torch.zeros(n_items, 1))
        self.classes = nn.Parameter(torch.empty(n_classes, rank).normal_(0, 1, generator=draw))
        self.class_bias = nn.Parameter(torch.zeros(n_classes))

    def forward(self, index: Tensor, features: Tensor) -> Tensor:
        return self._logits(index)

    def recall(self, index: Tensor) -> Tensor:
        return self._logits(index)

    def _logits(self, index: Tensor) -> Tensor:
        index = index.to(self.classes.device)
        bias = rows_of(self.item_bias.weight, index, sparse=True) + self.class_bias
        items = rows_of(self.items.weight, index, sparse=True)
        return torch.addmm(bias, items, self.classes.t())


class NetworkEstimator(Estimator):
    """A hidden layer on the classifier's features; nothing is stored per item to learn.

    The estimates of all items would need the features of all items, so each step notes what the
    network says about its batch, as float16 logits `[N, L]`: an estimate is as old as the last
    visit of its item. Above `KEPT` entries nothing is noted.

    Args:
        dim: Feature width D.
        labels: What is known of the training items.
        hidden: Hidden units H.
    """

    def __init__(self, dim: int, labels: TrainLabels, hidden: int) -> None:
        super().__init__()
        with seeded(labels.seed, "role"):
            self.first, self.second = nn.Linear(dim, hidden), nn.Linear(hidden, labels.n_classes)
        shape = (labels.n_items, labels.n_classes)
        self.recalls = shape[0] * shape[1] <= KEPT
        self.noted: Tensor
        if self.recalls:
            self.register_buffer("noted", torch.zeros(shape, dtype=torch.float16))

    def forward(self, index: Tensor, features: Tensor) -> Tensor:
        logits: Tensor = self.second(relu(self.first(pooled(features))))
        return logits

    def remember(self, index: Tensor, features: Tensor) -> None:
        if self.recalls:
            set_rows(self.noted, index, self(index, features).half())

    def recall(self, index: Tensor) -> Tensor:
        return rows_of(self.noted, index).float()


def _table(start: Tensor) -> nn.Embedding:
    """A table `[N, r]` that learns and has sparse gradients."""
    made: nn.Embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        start, freeze=False, sparse=True
    )
    return made


class Role(Method[RoleOptions]):
    """Needs `expected_positives`; `estimates()` gives the recovered labels."""

    lr_mult = 10.0
    fixed = ("estimator", "rank", "hidden")
    per_item = (
        "estimator.phi", "estimator.items.weight", "estimator.item_bias.weight", "estimator.noted",
    )  # fmt: skip

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
        estimates = torch.empty(len(rows), self.labels.n_classes)
        step = max(1, BLOCK // self.labels.n_classes)
        for start in range(0, len(rows), step):
            index = rows[start : start + step]
            phi = self.estimator.recall(index).to(CPU)
            observed = torch.from_numpy(self.labels.observed.dense(index.numpy()))
            if not self.estimator.holds_seen:
                phi = with_seen(phi, observed)
            estimates[start : start + step] = phi.masked_fill(observed < 0, -SEEN)
        return estimates.sigmoid_()


INFO = MethodInfo(
    name="role",
    build=Role,
    options=RoleOptions,
    paper=COLE,
    year=2021,
    summary="the labels of every training item are estimated while learning",
    needs_k=True,
    small_rate=True,
    alone="it learns parameters of its own",
    no_curve="it pulls towards an estimate of its own, which begins at random",
    grid=({"variant": "released"}, {"lam": 10.0}),
    search_space={"variant": VARIANTS, "lam": Range(0.01, 100.0, log=True)},
    ablation=(
        Part("none: AN", method="an"),
        Part("count of positives: EPR", {"lam": 1.0}, method="epr"),
        Part("online estimation", {"lam": 0.0}),
        Part("count of positives + online estimation"),
    ),
    published=(
        PublishedFigure("linear", COLE_TABLE_1, 86.5, 66.3, 49.5, 16.2),
        PublishedFigure("finetune", ZHOU_TABLE, 87.77, 67.04, 41.63, 13.66),
        PublishedFigure("linear_init", ZHOU_TABLE, 88.26, 69.12, 45.98, 14.86),
        PublishedFigure("finetune", COLE_TABLE_1, 87.9, 66.3, 43.1, 15.0),
        PublishedFigure("finetune", LASD_TABLE_2, 87.77, 67.04, 41.63, 13.66),
        PublishedFigure("linear_init", CHEN_TABLE_2, 88.26, 69.12, 41.95, 14.80),
        PublishedFigure("linear_init", COLE_TABLE_1, 88.2, 69.0, 51.0, 16.8),
        PublishedFigure("linear_init", XIE_TABLE_2_RESNET, 88.2, 69.0, 51.0, 16.8),
        PublishedFigure("labelwise", XIE_TABLE_2, 88.1, 69.6, 44.5, 14.2),
        PublishedFigure("linear", COLE_TABLE_2, 90.3, 69.5, 56.0, 19.6, scores="training labels"),
    ),
)
