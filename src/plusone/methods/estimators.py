"""Label estimators for ROLE: who remembers, and in how much memory, what the labels may be.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR: g(x; phi) of section 5.4,
its start in section 6.1, and the two ways past its memory that section 7 names without trying them.
With N items, L classes, rank r, feature width D and H hidden units:

| estimator | logit of item n, class l | numbers to learn |
| --- | --- | --- |
| `dense` | phi[n, l], as published | N L |
| `factored` | u[n] . v[l] + a[n] + b[l] | (N + L) (r + 1) |
| `network` | a small network on the features of item n | (D + 1) H + (H + 1) L |

Only `dense` can start a seen label at its own value and move it from there. For the other two a
seen label is fixed at that start, 0.995 or 0.005: see `with_seen`.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from plusone.seeds import generator, seeded
from plusone.types import TrainLabels

SPREAD = math.log(0.6 / (1 - 0.6))  # unseen labels start between probabilities 0.4 and 0.6
SEEN = math.log(0.995 / (1 - 0.995))  # a seen positive starts at 0.995, a seen negative at 0.005
KEPT = 1 << 26  # `network` remembers its estimates of all items up to this many entries


def with_seen(phi: Tensor, observed: Tensor) -> Tensor:
    """The estimate with the seen labels in their places.

    Args:
        phi: Logits `[B, L]`.
        observed: Seen labels `[B, L]` in {1, 0, -1}.

    >>> with_seen(torch.zeros(1, 3), torch.tensor([[1, 0, -1]])).sigmoid()
    tensor([[0.9950, 0.5000, 0.0050]])
    """
    return torch.where(observed == 0, phi, SEEN * observed.to(phi.dtype))


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
        return self.phi[index]

    def recall(self, index: Tensor) -> Tensor:
        return self.phi[index]


class FactoredEstimator(Estimator):
    """A matrix of rank r plus one bias per item and per class.

    It starts with the mean and the variance of the paper's uniform start. Class factors start at
    size 1 and carry the scale; item factors start small. A visit moves an item's factors by about
    the learning rate in each entry whatever their gradient is, so large class factors make up for
    the drift between visits that a dense parameter has and row-wise updates lack.

    Item tables have sparse gradients; the engine updates their rows alone.

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
        shared: Tensor = self.item_bias(index) + self.class_bias
        return torch.addmm(shared, self.items(index), self.classes.t())


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
        logits: Tensor = self.second(relu(self.first(features)))
        return logits

    def remember(self, index: Tensor, features: Tensor) -> None:
        if self.recalls:
            self.noted[index] = self(index, features).half()

    def recall(self, index: Tensor) -> Tensor:
        return self.noted[index].float()


def _table(start: Tensor) -> nn.Embedding:
    """A table `[N, r]` that learns and has sparse gradients."""
    made: nn.Embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        start, freeze=False, sparse=True
    )
    return made
