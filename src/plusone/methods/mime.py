"""MIME: an information bottleneck on label-wise embeddings, and pseudo labels for good.

Liu, Xu, Lv and Geng 2023, Revisiting Pseudo-Label for Single-Positive Multi-Label Learning, ICML,
and the authors' program. Each item has a normal distribution for each class, with mean mu and
standard deviation sd; the logit is linear in a sample of it. On images, mu and sd are computed from
the embedding of the class (as in `lac`), on feature vectors by a network of two layers for each
class. The loss is AN with the corrected labels, plus `beta` times the divergence of the
distributions from N(0, 1):

    -1/2 mean over items, classes and dimensions of (1 + 2 log sd - mu^2 - sd^2)

After each epoch from the `first` on, every unobserved label with p > `threshold` becomes a positive
and stays one.

The program averages `draws` samples z = mu + sd * noise. The logit is then normal, with mean
w . mu + b and variance sum of w^2 sd^2 / draws: here that one number is drawn for each label, from
seed and step alone, so that a step can be repeated and several processes agree.

Deviations:

- Predictions use the mean of the logit, where the program draws at test too.
- Pseudo labels are predictions for images without augmentation. Epochs before the `first` are those
  of the first stage alone. Corrections are a buffer, `[N, L]` booleans; observed labels never
  change.
- On images the head is 256 wide by default, as that of `lac`, and learns at the rate of the
  backbone; in the program it is 2048 wide and learns 10 times as fast (`width`, and the recipe's
  `head_lr_mult`; the published recipes set both). On vectors the networks are 64 wide by default;
  in the program they are 1024 wide. Adam instead of Adamax.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from plusone.device import CPU
from plusone.losses import assume_negative, reduce
from plusone.methods._base import Method, MethodInfo, Part, PublishedFigure, Range
from plusone.methods._labelwise import FIXED, LabelwiseOptions
from plusone.methods._papers import CHEN_TABLE_2, TRAN_TABLE
from plusone.methods._tables import columns_of, rows_of, set_columns
from plusone.models.heads import Head, LabelwiseHead
from plusone.seeds import generator
from plusone.types import Batch, Clock, Outputs, TrainLabels


@dataclass(frozen=True)
class MimeOptions(LabelwiseOptions):
    """The settings of the program; `first` is 5 for CUB there. latent: size of mu and sd."""

    SIZES = (*LabelwiseOptions.SIZES, "latent", "draws")

    beta: float = 1e-4
    threshold: float = 0.95
    first: int = 2
    latent: int = 256
    draws: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.threshold <= 1 or self.beta < 0:
            raise ValueError(
                f"need 0 < threshold <= 1 and beta >= 0, got {self.threshold} and {self.beta}"
            )


class BottleneckHead(LabelwiseHead):
    """A label-wise head whose embeddings are distributions, see `bottleneck`.

    Args:
        dim: D, channels of the backbone's features.
        n_classes: L.
        latent: Size of mu and sd.
        draws: Samples that a logit is the mean of.
        **sizes: Of the label-wise head.
    """

    def __init__(self, dim: int, n_classes: int, *, latent: int, draws: int, **sizes: int) -> None:
        super().__init__(dim, n_classes, **sizes)
        width = self.weight.shape[1]
        self.draws = draws
        self.distribution = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * latent)
        )
        self.weight = nn.Parameter(uniform(n_classes, latent, fan_in=latent))

    def forward(self, features: Tensor) -> Outputs:
        """From `[B, D, h, w]` or `[B, T, D]` to logits, distributions and maps."""
        embeddings, maps = self.attend(features)
        logits, embeddings = bottleneck(
            self.distribution(embeddings), self.weight, self.bias, self.draws
        )
        return Outputs(logits, features, embeddings, maps)


class ClassNetworks(Head):
    """A network of two layers for each class, whose outputs are distributions; for vectors.

    The weights of the logit are the same for all classes.

    Args:
        dim: D, length of a feature vector.
        n_classes: L.
        width: Hidden units of each network.
        latent: Size of mu and sd.
        draws: Samples that a logit is the mean of.
    """

    deterministic = True

    def __init__(self, dim: int, n_classes: int, *, width: int, latent: int, draws: int) -> None:
        super().__init__()
        self.draws = draws
        self.first = nn.Linear(dim, n_classes * width)  # the first layers of all classes
        self.second = nn.Parameter(uniform(n_classes, width, 2 * latent, fan_in=width))
        self.shift = nn.Parameter(uniform(n_classes, 2 * latent, fan_in=width))
        self.weight = nn.Parameter(uniform(latent, fan_in=latent))
        self.bias = nn.Parameter(uniform(1, fan_in=latent))
        self.width_inside = n_classes * max(width, 2 * latent)

    def forward(self, features: Tensor) -> Outputs:
        """From `[B, D]` to logits and distributions."""
        n_classes, width, _ = self.second.shape
        hidden = torch.relu(self.first(features)).view(-1, n_classes, width)
        outputs = torch.einsum("blh,lho->blo", hidden, self.second) + self.shift
        logits, embeddings = bottleneck(outputs, self.weight, self.bias, self.draws)
        return Outputs(logits, features, embeddings)


def bottleneck(outputs: Tensor, weight: Tensor, bias: Tensor, draws: int) -> tuple[Tensor, Tensor]:
    """Mean logits `[B, L]`, and mu, log sd and the standard deviation of the logit, side by side.

    Args:
        outputs: mu and 2 log sd, `[B, L, 2 latent]`.
        weight: Of the logits, `[L, latent]` or `[latent]`.
        bias: Of the logits, `[L]` or `[1]`.
        draws: Samples that a logit is the mean of.

    Returns:
        The logits and `[B, L, 2 latent + 1]`.
    """
    mu, s = outputs.chunk(2, dim=-1)
    log_sd = (s / 2).clamp(-6, 6)
    logits = (mu * weight).sum(-1) + bias
    variance = ((weight * log_sd.exp()) ** 2).sum(-1, keepdim=True) / draws
    spread = (variance + 1e-12).sqrt()
    return logits, torch.cat((mu, log_sd, spread), dim=-1)


def uniform(*shape: int, fan_in: int) -> Tensor:
    """Weights as a linear layer with so many inputs starts with."""
    bound = fan_in**-0.5
    return torch.empty(*shape).uniform_(-bound, bound)


class Mime(Method[MimeOptions]):
    """Remembers which labels became positives."""

    fixed = ("latent", "draws", *FIXED)
    per_item = ("corrected",)

    def __init__(self, labels: TrainLabels, options: MimeOptions) -> None:
        super().__init__(labels, options.sized(labels.places))
        self.corrected: Tensor
        empty = torch.zeros(labels.n_items, labels.n_classes, dtype=torch.bool)
        self.register_buffer("corrected", empty)

    def make_head(self, dim: int) -> Head:
        o, n_classes = self._first_options, self.labels.n_classes
        if self.labels.places:
            return BottleneckHead(dim, n_classes, latent=o.latent, draws=o.draws, **o.head)
        assert o.width is not None
        return ClassNetworks(dim, n_classes, width=o.width, latent=o.latent, draws=o.draws)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        out, o = outs[0], self.options
        assert out.embeddings is not None
        mu, log_sd, spread = torch.split(out.embeddings, [o.latent, o.latent, 1], dim=-1)
        draw = generator(self.labels.seed, "bottleneck", clock.stage, clock.epoch, clock.step)
        noise = torch.randn(out.logits.shape, generator=draw).to(out.logits.device)
        z = out.logits + spread[..., 0] * noise
        corrected = rows_of(self.corrected, batch.index) & (batch.observed == 0)
        y = torch.where(corrected, 1.0, batch.observed)
        divergence = -0.5 * (1 + 2 * log_sd - mu**2 - (2 * log_sd).exp()).mean()
        return {"an": reduce(assume_negative(z, y)), "bottleneck": o.beta * divergence}

    def after_epoch(self, clock: Clock, predict: Callable[[], Tensor]) -> None:
        if clock.stage == 0 and clock.epoch + 1 < self.options.first:
            return
        device = self.corrected.device
        confident = self.probabilities(predict()).to(device) > self.options.threshold
        unobserved = torch.from_numpy(self.labels.observed.dense() == 0).to(device)
        set_columns(self.corrected, columns_of(self.corrected) | (confident & unobserved))

    def estimates(self, rows: Tensor | None = None) -> Tensor:
        seen = torch.from_numpy(self.labels.observed.dense(rows) == 1)
        return (rows_of(self.corrected, rows).to(CPU) | seen).float()


INFO = MethodInfo(
    name="mime",
    build=Mime,
    options=MimeOptions,
    paper="Liu et al., Revisiting Pseudo-Label for Single-Positive Multi-Label Learning, ICML",
    year=2023,
    summary="an information bottleneck on one embedding per class; confident labels for good",
    defaults={"lr": 1e-4},
    has_maps=True,
    alone="its head is not one linear layer",
    no_curve="its loss depends on distributions of embeddings, not on probabilities alone",
    grid=({"threshold": 0.8}, {"beta": 1e-3}),
    search_space={"threshold": Range(0.6, 0.99), "beta": Range(1e-6, 1e-1, log=True)},
    ablation=(
        Part("AN", {"beta": 0.0, "threshold": 1.0}),
        Part("AN + bottleneck", {"threshold": 1.0}),
        Part("AN + bottleneck + pseudo labels"),
    ),
    published=(
        PublishedFigure("finetune", TRAN_TABLE, 89.20, 72.92, 48.74, 21.89),
        PublishedFigure("finetune", CHEN_TABLE_2, 89.20, 72.92, 48.74, 21.89),
    ),
    quick={"width": 16, "heads": 2, "feedforward": 16, "latent": 16, "threshold": 0.6},
)
