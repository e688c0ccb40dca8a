"""Recovery: kernel ridge regression on recovered labels, in closed form.

No paper; docs/recovery.md has the derivation, the ablation and the measured tables, and
`plusone.closed_form.recover` the algorithm: a model of how annotators pick the one label they name
turns predictions of the seen label into probabilities of all labels, and a regression on these
gives the next predictions.

On inputs that are not fixed vectors (fine-tuning) there is no closed form; then the recovered
labels are learned by gradient steps on the squared error. A pretrained network learns those that
the closed form recovered on its features (`plusone.training.end_to_end`); for others they are
recovered after each epoch from the predictions of the model, with picks taken as random.

`ridge` is the first step alone: squared error on the seen labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from plusone.closed_form.recover import (
    Recovering,
    first_estimate,
    power_for,
    recover_labels,
)
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
from plusone.probabilities.k import LabelsPerItem
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels

KEPT = 1 << 26  # recovered labels that are kept after a solution in closed form
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

    def solve(
        self, ridge: Ridge, observed: LabelMatrix, estimate: LabelsPerItem | None = None
    ) -> Solution:
        return seen_label_regression(ridge, observed, self.penalties)

    @property
    def penalties(self) -> tuple[float, ...]:
        """Penalties to choose from: the one that is given, or all."""
        return PENALTIES if self.options.penalty is None else (self.options.penalty,)


class Recovery(RidgeRegression[RecoveryOptions]):
    """Squared error on recovered labels.

    Attributes:
        targets: Recovered labels of the training items, `[N, L]`; `[N, 0]` in a stage that is
            solved in closed form and has more than `KEPT` of them, which are then computed when
            they are asked for.
    """

    per_item = ("targets",)

    def __init__(self, labels: TrainLabels, options: RecoveryOptions) -> None:
        super().__init__(labels, options)
        self._recovered: Callable[[Tensor], Tensor] | None = None  # where targets are not kept
        self._solved = False  # whether targets of this stage are those of a solution
        self.register_buffer("targets", self._first_targets(labels.n_items * labels.n_classes))
        self.targets: Tensor

    def _first_targets(self, kept: int) -> Tensor:
        """The seen labels; nothing of them if there are more than may be kept."""
        seen = self.labels.observed
        if kept > KEPT:
            return torch.zeros(self.labels.n_items, 0)
        return torch.from_numpy(seen.dense() == 1).float()

    def begin_stage(self, stage: Stage) -> None:
        super().begin_stage(stage)
        self._solved = False
        if stage.inputs != "features" and not self.targets.shape[1]:
            self.targets = self._first_targets(0).to(self.targets.device)

    def targets_of(self, batch: Batch) -> Tensor:
        return rows_of(self.targets, batch.index)

    def solve(
        self, ridge: Ridge, observed: LabelMatrix, estimate: LabelsPerItem | None = None
    ) -> Solution:
        return recover_labels(
            ridge,
            observed,
            k=self.labels.expected_positives,
            estimate=estimate,
            rounds=self.options.rounds,
            scoring=self.options.scoring,
            picks=self.labels.picks,
            penalties=self.penalties,
            hierarchy=self.labels.hierarchy,
        )

    def after_solving(self, recovered: Callable[[Tensor], Tensor]) -> None:
        self._solved = True
        if self.targets.shape[1]:
            set_columns(self.targets, recovered(torch.arange(self.labels.n_items)))
        else:
            self._recovered = recovered

    def after_epoch(self, clock: Clock, predict: Callable[[], Tensor]) -> None:
        if self._solved:
            return
        predictions = predict()
        observed = torch.from_numpy(self.labels.observed.dense()).to(predictions.device).float()
        q = pick_probabilities(predictions, observed)
        k = first_estimate(q, observed, self.labels.expected_positives).k
        p = q.mul_(k)
        step = Recovering(power_for(p, observed, k), k)
        set_columns(self.targets, step.recovered(p, observed))

    def estimates(self, rows: Tensor | None = None) -> Tensor | None:
        if self.targets.shape[1]:
            return rows_of(self.targets, rows).to(CPU)
        return None if self._recovered is None or rows is None else self._recovered(rows)


NO_CURVE = "it is solved in closed form, without gradient steps"

INFOS = (
    MethodInfo(
        name="ridge",
        title="Ridge",
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
        title="Recovery",
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
