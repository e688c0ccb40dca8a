"""Recovery: kernel ridge regression on recovered labels, in closed form.

No paper; docs/recovery.md has the derivation, the ablation and the measured tables. With L classes,
and m seen positives per item that were picked at random among its positives (m = 1 mostly):

1. Ridge regression on the seen label: targets 1 / m for each seen positive, else 0; items without
   any have the mean target. Its leave-one-out prediction, clipped and normalised in each row, is q,
   the probability that a class is the one that is picked. The penalty is the one with the least
   leave-one-out squared error.
2. k, the number of positives per item: as given; else estimated from how often q's first choice is
   a seen one (`priors.labels_per_item`), because the first choice is nearly always a positive.
3. p = k q, the probability that a class is positive; then `rounds` times:
   a. Calibrate: p is raised to the power with which the recovered labels sum to k on average.
   b. Recover: R is 1 for a seen positive, 0 for a seen negative, else the probability that a class
      is positive although it was not picked, (p - s) / (1 - s) with s = m p / max(m, sum p).
   c. Fit: ridge regression, with the penalty of step 1, on T = p + w (R - p), and p its
      leave-one-out prediction. A pick carries 1 / k of the information of all labels, so the
      step from p towards R is w = k / m times k / max(m, sum p) long, and at least 1 (Fisher
      scoring).

The last regression is the model. Every prediction that becomes a target is leave-one-out, so that
an item does not confirm itself at once; from the second round on it does a little, through the
targets of its neighbours, so probabilities are calibrated on other folds. On inputs that are not
fixed vectors (fine-tuning) there is no closed form; then R is learned by gradient steps on the
squared error, and recovered after each epoch from the predictions of the model.

`ridge` is step 1 alone: squared error on the seen labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from plusone.closed_form.ridge import (
    PENALTIES,
    Ridge,
    Solution,
    pick_probabilities,
    seen_label_regression,
)
from plusone.data.matrix import LabelMatrix
from plusone.device import CPU
from plusone.losses import reduce
from plusone.methods._base import Method, MethodInfo, Options, Part
from plusone.methods._tables import rows_of, set_columns
from plusone.probabilities.curve import FEWEST
from plusone.probabilities.k import labels_per_item
from plusone.types import Batch, Clock, Outputs, TrainLabels

CLIPPED = 1e-3  # probabilities are clipped to [eps, 1 - eps]; smaller eps with many classes
ADDED = 0.1  # labels per item that clipping may add
MORE = 1.05  # lower bound on k, as a multiple of the seen mean
POWERS = (0.2, 8.0)  # of p, least and most
HALVINGS = 16
SEARCHED = 2_000_000  # labels that the power is searched on, about
BLOCK = 1024  # items at once
CERTAIN = 0.97  # the largest probability that a label was picked
SLOPE = 4.0  # scores in [0, 1] are sigmoid(SLOPE (z - 1/2))


@dataclass(frozen=True)
class RidgeOptions(Options):
    """Options of `ridge`.

    Args:
        penalty: Of the squared weights; None chooses it by leave-one-out.
    """

    penalty: float | None = None

    def __post_init__(self) -> None:
        if self.penalty is not None and not self.penalty > 0:
            raise ValueError(f"penalty must be above 0, not {self.penalty:g}")


@dataclass(frozen=True)
class RecoveryOptions(RidgeOptions):
    """Options of `recovery`.

    Args:
        penalty: Of the squared weights; None chooses it by leave-one-out.
        rounds: How often labels are recovered.
        scoring: Whether steps have the length of Fisher scoring; else T = R.
    """

    rounds: int = 5
    scoring: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 0:
            raise ValueError(f"rounds must be 0 or more, not {self.rounds}")


AnyRidge = TypeVar("AnyRidge", bound=RidgeOptions)


class RidgeRegression(Method[AnyRidge]):
    """Squared error on the seen labels: unobserved and negative labels have the target 0."""

    def log_odds(self, logits: Tensor) -> Tensor:
        return SLOPE * (logits - 0.5)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"loss": reduce((outs[0].logits - self.targets_of(batch)).square())}

    def targets_of(self, batch: Batch) -> Tensor:
        """The targets of a batch, `[B, L]`."""
        return batch.observed.clamp(min=0)

    def solve(self, ridge: Ridge, observed: Tensor) -> Solution:
        return seen_label_regression(ridge, observed, self.penalties)[0]

    @property
    def penalties(self) -> tuple[float, ...]:
        """Penalties to choose from: the one that is given, or all."""
        return PENALTIES if self.options.penalty is None else (self.options.penalty,)


class Recovery(RidgeRegression[RecoveryOptions]):
    """Squared error on recovered labels."""

    per_item = ("targets",)

    def __init__(self, labels: TrainLabels, options: RecoveryOptions) -> None:
        super().__init__(labels, options)
        self.register_buffer("targets", torch.from_numpy(labels.observed.dense() == 1).float())
        self.targets: Tensor

    def targets_of(self, batch: Batch) -> Tensor:
        return rows_of(self.targets, batch.index)

    def solve(self, ridge: Ridge, observed: Tensor) -> Solution:
        solution, penalty = seen_label_regression(ridge, observed, self.penalties)
        p, k = self.first_guess(solution.left_out, observed)
        for _ in range(self.options.rounds):
            del solution  # its tables are not needed any more
            p, recovered = calibrated(p, observed, k)
            target = recovered
            if self.options.scoring:
                target = p.lerp_(recovered, step_length(p, observed, k))
                target.masked_fill_(observed == -1, 0.0)
            solution = replace(ridge.solve(target, penalty), targets=recovered)
            p = solution.left_out
        return solution

    def after_solving(self, solution: Solution) -> None:
        if solution.targets is not None:
            set_columns(self.targets, solution.targets[: self.labels.n_items])

    def first_guess(self, predictions: Tensor, observed: Tensor) -> tuple[Tensor, float]:
        """The first p, and k, from predictions `[n, L]` of the seen label."""
        q = pick_probabilities(predictions, observed)
        k = self.labels.expected_positives or positives_per_item(q, observed)
        return q.mul_(k), k

    def after_epoch(self, clock: Clock, predict: Callable[[], Tensor]) -> None:
        predictions = predict()
        observed = torch.from_numpy(self.labels.observed.dense()).to(predictions.device).float()
        p, k = self.first_guess(predictions, observed)
        set_columns(self.targets, calibrated(p, observed, k)[1])

    def estimates(self, rows: Tensor | None = None) -> Tensor:
        return rows_of(self.targets, rows).to(CPU)


def positives_per_item(q: Tensor, observed: Tensor) -> float:
    """The number of positives per item, by the formula of `plusone priors`; more than is seen."""
    seen = LabelMatrix.concatenate(
        [
            LabelMatrix.from_dense(part.cpu().numpy().astype(np.int8))
            for part in torch.split(observed, BLOCK)
        ]
    )
    counts = seen.per_item(1)
    counts = counts[counts > 0]
    least = min(MORE * (float(counts.mean()) if len(counts) else 1.0), float(seen.n_classes))
    if len(counts) < FEWEST:
        return least
    return max(labels_per_item(q.cpu().numpy(), seen).k, least)


def calibrated(p: Tensor, observed: Tensor, k: float) -> tuple[Tensor, Tensor]:
    """Raises p to the power at which the recovered labels sum to k on average.

    The power is searched on some of the items where there are many labels.

    Returns:
        The power of p, in its place, and the recovered labels, `[n, L]` each.
    """
    least, rows = min(CLIPPED, ADDED / p.shape[1]), (observed == 1).any(1).nonzero()[:, 0]
    some = rows[:: -(-len(rows) * p.shape[1] // SEARCHED) or 1]
    sample, seen = p[some].clamp(least, 1 - least), observed[some]
    low, high = POWERS
    for _ in range(HALVINGS):
        power = (low * high) ** 0.5
        too_many = float(recover(sample**power, seen).sum(1).mean()) > k
        low, high = (power, high) if too_many else (low, power)
    recovered = torch.empty_like(p)
    for start in range(0, len(p), BLOCK):  # whole tables in between would take much memory
        block = slice(start, start + BLOCK)
        p[block] = p[block].clamp(least, 1 - least) ** power
        recovered[block] = recover(p[block], observed[block])
    return p, recovered


def recover(p: Tensor, observed: Tensor) -> Tensor:
    """R: the probability of each label given what was seen, `[n, L]`."""
    seen = (observed == 1).sum(1, keepdim=True)
    among = torch.maximum(p.sum(1, keepdim=True), seen.clamp(min=1))
    picked = (seen * p / among).clamp(max=CERTAIN)
    unseen = (p - picked) / (1 - picked)
    return torch.where(observed == 1, 1.0, torch.where(observed == -1, 0.0, unseen))


def step_length(p: Tensor, observed: Tensor, k: float) -> Tensor:
    """w, `[n, 1]`: longer for items with few positives, whose pick says more; at least 1."""
    seen = (observed == 1).sum(1, keepdim=True).clamp(min=1)
    return (k / seen * k / torch.maximum(p.sum(1, keepdim=True), seen)).clamp(min=1)


NO_CURVE = "it is solved in closed form, without gradient steps"

INFOS = (
    MethodInfo(
        name="ridge",
        build=RidgeRegression,
        options=RidgeOptions,
        paper="no paper: squared error on the seen labels",
        year=2026,
        summary="ridge regression on the seen labels, in closed form on fixed features",
        closed_form=True,
        leave_one_out=True,
        no_curve=NO_CURVE,
        alone="its regression has no learning rate",
    ),
    MethodInfo(
        name="recovery",
        build=Recovery,
        options=RecoveryOptions,
        paper="no paper: docs/recovery.md",
        year=2026,
        summary="kernel ridge regression on recovered labels, in closed form; the default",
        closed_form=True,
        no_curve=NO_CURVE,
        alone="its regression has no learning rate",
        ablation=(
            Part("recovery"),
            Part("steps of length one", {"scoring": False}),
            Part("one round", {"rounds": 1}),
            Part("seen labels alone", {"rounds": 0}),
        ),
    ),
)
