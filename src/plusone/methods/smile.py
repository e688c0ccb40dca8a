"""SMILE: a graph network enhances the labels, and a classifier learns the enhanced ones.

Xu, Qiao, Lv, Geng and Zhang 2022, One Positive Label is Sufficient: Single-Positive Multi-Label
Learning with Label Enhancement, NeurIPS, https://arxiv.org/abs/2206.00517, and the authors'
program. It is made for feature vectors: the three nearest neighbours (Euclidean) of all training
items form a graph, A_ij = 1 if j is a neighbour of i, else 0.

The enhancer gives soft labels d by two graph convolutions of width L and a linear layer,

    d = sigmoid(g(1/3 A relu(1/3 A X W + b) V + c)),

and has to rebuild what is known: h = MLP([x, d]), x' = MLP([d, h]), y' drawn from Beta(d + 1e-5,
1 - d + 1e-5) with gradients, and A' = y' y'^T within the batch. Its loss is

    AN(d) + gamma [MSE(x', x) + AN(y') + MSE(A', A)]
    + delta mean[lgamma(d) + lgamma(1 - d) + (d - 1) digamma(d) - d digamma(1 - d)]

The classifier is an MLP D -> L -> L. With t = 1 at seen positives and `p0` elsewhere, and the
target D = mu d + (1 - mu) t without gradient, its loss is the mean of w [D lp + (1 - D) ln], w = 1
for seen labels and `rate` for others. Predictions need the classifier alone.

A step computes d for the items of its batch only: a convolution of fixed neighbours is a mean over
rows, so this is what a pass over the whole graph gives for them, at a cost that does not depend on
N. 1/3 A X is computed once, before training.

How it differs from the program:

- There, messages pass from an item to its neighbours, so that an item gets those of the items that
  it is a neighbour of, if there are any. Here it gets those of its own neighbours. A message has
  the weight 1 / sqrt(3 in-degree) there; here it is 1/3, so that the weights of an item's messages
  add up to 1.
- The last part of the loss is the program's. In the divergence of Beta(d, 1 - d) from the uniform
  distribution, which it stands for, lgamma has the other sign; both pull d towards 1/2.
- AN(d) is computed from logits, where the program adds 1e-5 to probabilities. Noise depends on
  seed and step alone.
- Seen negatives, which the paper does not have, have the target 0 and the weight 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from plusone.device import CPU, device_of
from plusone.losses import assume_negative, reduce
from plusone.losses._logits import by_state, log_probabilities
from plusone.methods._base import (
    Method,
    MethodInfo,
    Options,
    Part,
    PublishedFigure,
    Range,
)
from plusone.methods._papers import CHEN_TABLE_2, TRAN_TABLE
from plusone.methods._tables import rows_of
from plusone.models.heads import Head
from plusone.seeds import generator
from plusone.types import Batch, Clock, Outputs, TrainLabels

LARGEST = math.log(1e5)  # logit of a drawn label
PROPOSALS = 4  # for a draw from a Gamma distribution; each is accepted with 95 per cent or more
ROWS = 8192  # items whose neighbours are searched at once
BLOCK = 1024  # items among which they are searched, or whose labels are enhanced, at once


@dataclass(frozen=True)
class SmileOptions(Options):
    """The settings of the program; p0, mu and rate are those for yeast.

    For many classes the rate is 1 / (L - 1) there. neighbours: how many of each item are in the
    graph.
    """

    p0: float = 0.05
    mu: float = 0.5
    rate: float = 0.1
    gamma: float = 0.001
    delta: float = 1.0
    neighbours: int = 3

    def __post_init__(self) -> None:
        if not (0 <= self.p0 <= 1 and 0 <= self.mu <= 1):
            raise ValueError(f"p0 and mu must lie between 0 and 1, got {self.p0} and {self.mu}")
        if min(self.rate, self.gamma, self.delta) < 0:
            raise ValueError("rate, gamma and delta must not be negative")
        if self.neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, got {self.neighbours}")


class Mlp(nn.Sequential):
    """Two linear layers with a rectifier between them, the first as wide as the second."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))


class MlpHead(Head):
    """The classifier: logits `[B, L]` of features `[B, D]`."""

    deterministic = True

    def __init__(self, dim: int, n_classes: int) -> None:
        super().__init__()
        self.layers = Mlp(dim, n_classes)

    def forward(self, features: Tensor) -> Outputs:
        return Outputs(self.layers(features), features)


class Enhancer(nn.Module):
    """The networks of the label enhancement.

    Args:
        dim: D, length of a feature vector.
        n_classes: L.
    """

    def __init__(self, dim: int, n_classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(dim, n_classes), nn.Linear(n_classes, n_classes)
        for layer in (self.first, self.second):  # as graph convolutions start
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.last = nn.Linear(n_classes, n_classes)
        self.hidden = Mlp(dim + n_classes, n_classes)
        self.inputs = Mlp(2 * n_classes, dim)

    def logits(self, means: Tensor) -> Tensor:
        """Logits of d `[B, L]`.

        Args:
            means: For each neighbour of an item the mean vector of its neighbours, `[B, k, D]`.
        """
        convolved = torch.relu(self.first(means)).sum(1) / max(means.shape[1], 1)
        logits: Tensor = self.last(self.second(convolved))
        return logits

    def rebuilt(self, x: Tensor, d: Tensor) -> Tensor:
        """The rebuilt vectors x' `[B, D]`, from x `[B, D]` and d `[B, L]`."""
        hidden = self.hidden(torch.cat((x, d), dim=1))
        x_new: Tensor = self.inputs(torch.cat((d, hidden), dim=1))
        return x_new


class Smile(Method[SmileOptions]):
    """Holds the graph `[N, k]`, and for each item the mean vector of its neighbours `[N, D]`."""

    fixed = ("neighbours",)
    per_item = ("graph", "means")

    def __init__(self, labels: TrainLabels, options: SmileOptions) -> None:
        super().__init__(labels, options)
        self.graph: Tensor | None
        self.means: Tensor | None
        self.register_buffer("graph", None, persistent=False)
        self.register_buffer("means", None, persistent=False)

    def make_head(self, dim: int) -> Head:
        self.enhancer = Enhancer(dim, self.labels.n_classes)
        return MlpHead(dim, self.labels.n_classes)

    def begin_training(self, vectors: Callable[[], Tensor]) -> None:
        x = vectors()
        self.graph = nearest(x, self.options.neighbours, device_of(self.enhancer))
        near = [x[rows].sum(1) / max(rows.shape[1], 1) for rows in torch.split(self.graph, BLOCK)]
        self.means = torch.cat(near)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, z, y = self.options, outs[0].logits, batch.observed
        graph, x = self._neighbours(batch.index), outs[0].features.detach()
        logits = self._enhanced(graph)
        d = torch.sigmoid(logits)
        noise = generator(self.labels.seed, "enhancer", clock.stage, clock.epoch, clock.step)
        drawn = beta_logits(d + 1e-5, 1 - d + 1e-5, noise).clamp(-LARGEST, LARGEST)
        y_new = torch.sigmoid(drawn)
        adjacency = (graph[:, :, None] == batch.index).any(1).to(d.dtype)
        rebuilt = (
            mse_loss(self.enhancer.rebuilt(x, d), x)
            + reduce(assume_negative(drawn, y))
            + mse_loss(y_new @ y_new.T, adjacency)
        )
        return {
            "classifier": reduce(enhanced_loss(z, y, d.detach(), p0=o.p0, mu=o.mu, rate=o.rate)),
            "enhancer": reduce(assume_negative(logits, y)),
            "rebuilt": o.gamma * rebuilt,
            "spread": o.delta * spread(d).mean(),
        }

    def estimates(self, rows: Tensor | None = None) -> Tensor | None:
        """d, and 1 at seen positives; None after training, when the graph is gone."""
        if self.graph is None:
            return None
        rows = torch.arange(self.labels.n_items) if rows is None else rows
        device = device_of(self.enhancer)
        with torch.no_grad():
            logits = [
                self._enhanced(self._neighbours(part.to(device))).to(CPU)
                for part in torch.split(rows, BLOCK)
            ]
        seen = torch.from_numpy(self.labels.observed.dense(rows) == 1)
        return torch.where(seen, 1.0, torch.sigmoid(torch.cat(logits)))

    def _neighbours(self, index: Tensor) -> Tensor:
        """Rows of the neighbours of some items, int64 `[B, k]`."""
        if self.graph is None:
            raise ValueError("smile has no graph; begin_training must be called first")
        return rows_of(self.graph, index)

    def _enhanced(self, graph: Tensor) -> Tensor:
        """Logits of d `[B, L]` of items with these neighbours `[B, k]`."""
        assert self.means is not None
        return self.enhancer.logits(rows_of(self.means, graph))


def enhanced_loss(z: Tensor, y: Tensor, d: Tensor, *, p0: float, mu: float, rate: float) -> Tensor:
    """Losses `[B, L]` of the classifier.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`.
        d: Soft labels `[B, L]` without gradients.
        p0: Target of labels that are not seen, before they are mixed with d.
        mu: Share of d in the target.
        rate: Weight of labels that are not seen.

    >>> z, y, d = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), torch.full((1, 2), 0.5)
    >>> enhanced_loss(z, y, d, p0=0.05, mu=0.5, rate=0.1)
    tensor([[0.6931, 0.0693]])
    """
    log_p, log_not_p = log_probabilities(z)

    def towards(target: Tensor) -> Tensor:
        return -(target * log_p + (1 - target) * log_not_p)

    return by_state(
        y,
        positive=towards(mu * d + (1 - mu)),
        unobserved=rate * towards(mu * d + (1 - mu) * p0),
        negative=-log_not_p,
    )


def beta_logits(a: Tensor, b: Tensor, noise: torch.Generator) -> Tensor:
    """Logits of draws from Beta(a, b), reparameterised, for a and b of any equal shape.

    A draw is G / (G + H), with G and H from the Gamma distributions of a and b. Those are drawn by
    Marsaglia and Tsang (2000), for shapes above 1 and then lowered: G_a = G_{a+1} U^(1/a). The
    gradient is that of the proposal that was accepted (Naesseth et al. 2017); its mean is right
    within two per cent. torch's own sampler depends on the device.

    Args:
        a: First parameters `[...]`, positive.
        b: Second parameters `[...]`, positive.
        noise: Generator of the CPU.
    """
    shapes = torch.stack((a, b))
    sizes = (PROPOSALS, *shapes.shape)
    x = torch.randn(sizes, generator=noise).to(shapes)
    u, lowering = (torch.rand(size, generator=noise).to(shapes) for size in (sizes, sizes[1:]))
    with torch.no_grad():
        c = shapes + 2 / 3
        v = (1 + x / (3 * c.sqrt())) ** 3
        positive = v.clamp(min=1e-30)
        accepted = (v > 0) & (u.log() < x.square() / 2 + c * (1 - v + positive.log()))
        chosen = x.gather(0, accepted.to(torch.uint8).argmax(0, keepdim=True))[0]
    c = shapes + 2 / 3
    root = (1 + chosen / (3 * c.sqrt())).clamp(min=1e-3)
    logs = c.log() + 3 * root.log() + lowering.clamp(min=1e-12).log() / shapes
    return logs[0] - logs[1]


def spread(d: Tensor) -> Tensor:
    """The last part of the enhancer's loss `[...]`, for d `[...]`; 1e-6 keeps it finite."""
    a, b = d + 1e-6, 1 - d + 1e-6
    ends = (a - 1) * torch.digamma(a) + (b - 1) * torch.digamma(b)
    return torch.lgamma(a) + torch.lgamma(b) + ends


def nearest(x: Tensor, k: int, device: torch.device = CPU) -> Tensor:
    """The nearest other rows of each row, int64 `[N, k]`; fewer columns if N <= k.

    Distances are computed for `ROWS` x `BLOCK` pairs at a time, and no more of x is on the device.

    Args:
        x: Vectors `[N, D]`.
        k: How many.
        device: Where distances are computed; x and the result are in the memory of the CPU.

    >>> nearest(torch.tensor([[0.0], [1.0], [3.0], [7.0]]), 1).flatten()
    tensor([1, 0, 1, 2])
    """
    k, mean, found = min(k, len(x) - 1), x.mean(0), []
    for rows in torch.split(torch.arange(len(x)), ROWS):
        own, of = (x[rows] - mean).to(device), rows.to(device)[:, None]
        best, near = own.new_full((len(own), k), torch.inf), of.repeat(1, k)
        for others in torch.split(torch.arange(len(x)), BLOCK):
            # From the mean: products of large numbers would hide small distances.
            distances, index = torch.cdist(own, (x[others] - mean).to(device)), others.to(device)
            distances.masked_fill_(index == of, torch.inf)
            there, places = distances.topk(min(k, len(others)), largest=False)
            best, chosen = torch.cat((best, there), 1).topk(k, largest=False)
            near = torch.cat((near, index[places]), 1).gather(1, chosen)
        found.append(near.to(CPU))
    return torch.cat(found)


INFO = MethodInfo(
    name="smile",
    build=Smile,
    options=SmileOptions,
    paper="Xu et al., One Positive Label is Sufficient, NeurIPS",
    year=2022,
    summary="a graph of nearest neighbours enhances the labels; for feature vectors",
    inputs="vectors",
    alone="it has networks of its own",
    no_curve="its targets depend on a network, not on probabilities alone",
    grid=({"p0": 0.025, "mu": 0.1}, {"p0": 0.01, "mu": 0.01}),
    search_space={
        "p0": Range(0.001, 0.2, log=True),
        "mu": Range(0.01, 0.9, log=True),
        "rate": Range(0.01, 1.0, log=True),
    },
    ablation=(
        Part("none: AN", method="an"),
        Part("constant soft targets", {"mu": 0.0}),
        Part("soft targets of the graph", {"gamma": 0.0}),
        Part("soft targets of the graph, which rebuild the data"),
    ),
    published=(
        PublishedFigure("finetune", TRAN_TABLE, 86.31, 63.33, 43.61, 18.61),
        PublishedFigure("finetune", CHEN_TABLE_2, 87.31, 70.43, 47.24, 18.61),
    ),
)
