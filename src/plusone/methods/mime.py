"""MIME: an information bottleneck on label-wise embeddings, and pseudo labels for good.

Liu, Xu, Lv and Geng 2023, Revisiting Pseudo-Label for Single-Positive Multi-Label Learning, ICML,
and the authors' program. The embedding of each class (as in `lac`) becomes a normal distribution
with mean mu and standard deviation sd; the logit is linear in a sample of it. The loss is AN with
the corrected labels, plus `beta` times the divergence of the distributions from N(0, 1):

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
- The head is 256 wide by default, as that of `lac`, and learns at the rate of the backbone; in the
  program it is 2048 wide and learns 10 times as fast (`width`, and the recipe's `head_lr_mult`; the
  published recipes set both). Adam instead of Adamax.
- On feature vectors the head attends to a single token; the program has a network of its own for
  each class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from plusone.device import CPU
from plusone.losses import assume_negative, reduce
from plusone.methods.base import Method, MethodInfo, Part, PublishedFigure, Range
from plusone.methods.labelwise import FIXED, LabelwiseOptions
from plusone.methods.papers import TRAN_TABLE
from plusone.methods.tables import columns_of, rows_of, set_columns
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
    """A label-wise head whose embeddings are distributions.

    `Outputs.embeddings` `[B, L, 2 latent + 1]` holds mu, log sd and the standard deviation of the
    logit; the logits are the mean ones.

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
        bound = latent**-0.5
        self.weight = nn.Parameter(torch.empty(n_classes, latent).uniform_(-bound, bound))

    def forward(self, features: Tensor) -> Outputs:
        """From `[B, D, h, w]`, `[B, T, D]` or `[B, D]` to logits, distributions and maps."""
        embeddings, maps = self.attend(features)
        mu, s = self.distribution(embeddings).chunk(2, dim=-1)
        log_sd = (s / 2).clamp(-6, 6)
        logits = (mu * self.weight).sum(-1) + self.bias
        variance = ((self.weight * log_sd.exp()) ** 2).sum(-1, keepdim=True) / self.draws
        spread = (variance + 1e-12).sqrt()
        return Outputs(logits, features, torch.cat((mu, log_sd, spread), dim=-1), maps)


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
        o = self._first_options
        return BottleneckHead(dim, self.labels.n_classes, latent=o.latent, draws=o.draws, **o.head)

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
    published=(PublishedFigure("finetune", TRAN_TABLE, 89.20, 72.92, 48.74, 21.89),),
    quick={"width": 16, "heads": 2, "feedforward": 16, "latent": 16, "threshold": 0.6},
)
