"""From out-of-sample scores to calibrated probabilities, with an audit where there is one.

Scores are calibrated on the seen labels by a `Curve` (`plusone.priors.calibration`). Answers of an
audit or a review then correct the probabilities p of unobserved labels,

    logit p' = a + b_1 min(logit p, 0) + b_2 max(logit p, 0) + a_l,

by penalised logistic regression. The correction is fitted again on bootstrap samples of the audited
items, for the uncertainty of the expected precision (`plusone.suggest.accept`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from plusone.data.matrix import LabelMatrix
from plusone.priors.calibration import Floats, apply_curve, fit_curve, log_odds
from plusone.priors.lbfgs import minimise
from plusone.suggest.answers import Answers

CLASS_RIDGE = 4.0
SLOPE_RIDGE = 8.0
SHIFT_RIDGE = 0.1
SMALLEST_SLOPE = 0.05
STEPS = 100


@dataclass(frozen=True)
class Correction:
    """A fitted correction.

    Args:
        shift: a.
        slopes: b_1 and b_2.
        class_shift: a_l, `[L]`.
    """

    shift: float
    slopes: Floats
    class_shift: Floats

    def __call__(self, probabilities: Floats, label: npt.NDArray[np.int64] | None = None) -> Floats:
        """Corrected probabilities of `[n, L]`, or of entries `[m]` of the given classes."""
        class_shift = self.class_shift if label is None else self.class_shift[label]
        logits = self.shift + _sides(log_odds(probabilities)) @ self.slopes + class_shift
        return np.asarray(np.exp(-np.logaddexp(0.0, -logits)))


def fit_correction(
    probabilities: Floats,
    label: npt.NDArray[np.int64],
    yes: npt.NDArray[np.bool_],
    n_classes: int,
    *,
    weight: npt.ArrayLike = 1.0,
    start: Correction | None = None,
) -> Correction:
    """The most likely correction, shrunk towards the identity.

    Args:
        probabilities: Probabilities without the answers, `[m]`.
        label: Class of each answer, `[m]`.
        yes: The answers, `[m]`.
        n_classes: Number of classes.
        weight: Weight of each answer, `[m]` or one for all.
        start: Where to begin.
    """
    x, y = torch.from_numpy(_sides(log_odds(probabilities))), torch.from_numpy(yes).double()
    weights = torch.from_numpy(
        np.broadcast_to(np.asarray(weight, dtype=np.float64), y.shape).copy()
    )
    place = torch.from_numpy(label)

    def cost(shift: Tensor, raw_slopes: Tensor, class_shift: Tensor) -> Tensor:
        slopes = _slopes(raw_slopes)
        logits = shift + x @ slopes + class_shift[place]
        loss = binary_cross_entropy_with_logits(logits, y, weights, reduction="sum")
        ridge = SHIFT_RIDGE * shift**2 + SLOPE_RIDGE * ((slopes - 1) ** 2).sum()
        return loss + (ridge + CLASS_RIDGE * (class_shift**2).sum()) / 2

    first = start or Correction(0.0, np.ones(2), np.zeros(n_classes))
    slopes = torch.from_numpy(first.slopes) - SMALLEST_SLOPE
    shift, raw_slopes, class_shift = minimise(
        cost,
        [
            torch.tensor(first.shift).double(),
            slopes + torch.log(-torch.expm1(-slopes)),  # the inverse of softplus
            torch.from_numpy(first.class_shift),
        ],
        steps=STEPS,
    )
    return Correction(shift.item(), _slopes(raw_slopes).numpy(), class_shift.numpy())


def _slopes(raw: Tensor) -> Tensor:
    """Slopes above `SMALLEST_SLOPE`, so that corrections are increasing."""
    return SMALLEST_SLOPE + softplus(raw)


def _sides(x: Floats) -> Floats:
    """The negative and the positive parts, `[..., 2]`."""
    return np.stack([np.minimum(x, 0.0), np.maximum(x, 0.0)], axis=-1)


def resampled(
    probabilities: Floats,
    answers: Answers,
    n_classes: int,
    fitted: Correction,
    times: int,
    seed: int = 0,
) -> list[Correction]:
    """Corrections fitted on bootstrap samples of the audited items."""
    rng = np.random.default_rng(seed)
    items, item_of_answer = np.unique(answers.row, return_inverse=True)
    corrections = []
    for _ in range(times):
        counts = np.bincount(rng.integers(len(items), size=len(items)), minlength=len(items))
        corrections.append(
            fit_correction(
                probabilities,
                answers.label,
                answers.yes,
                n_classes,
                weight=counts[item_of_answer],
                start=fitted,
            )
        )
    return corrections


RESAMPLES = 100
NO_AUDIT = (
    "No audit: nobody checked any of these labels. The probabilities come from the seen labels "
    "alone and assume that each was picked at random among the labels of its item, and that an "
    "item has {k:.2f} labels on average ({origin}). If that is wrong, so are they."
)
AUDIT = (
    "Calibrated on {answers} answers about {items} items ({yes} of them yes), "
    "and on the seen labels with {k:.2f} labels per item ({origin})."
)
ORIGINS = {
    "given": "as given",
    "audit": "counted in the audit and drawn to the estimate from the seen labels",
    "estimated": "estimated from the seen labels",
    "cautious": "estimated from the seen labels, then lowered a little",
}
Origin = Literal["given", "audit", "estimated", "cautious"]


@dataclass(frozen=True)
class AuditCounts:
    """Size of an audit.

    Args:
        answers: Number of answers.
        items: Number of distinct items.
        yes: Number of answers that are yes.
    """

    answers: int
    items: int
    yes: int


@dataclass(frozen=True)
class CalibrationSummary:
    """What a calibration was based on.

    Args:
        k: Mean number of labels per item.
        k_from: Where k comes from, a name in `ORIGINS`.
        audit: Size of the audit; None if there was none.
    """

    k: float
    k_from: Origin
    audit: AuditCounts | None = None

    @property
    def sentence(self) -> str:
        """The same as a sentence."""
        origin = ORIGINS[self.k_from]
        if self.audit is None:
            return NO_AUDIT.format(k=self.k, origin=origin)
        return AUDIT.format(k=self.k, origin=origin, **asdict(self.audit))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | {"sentence": self.sentence}


@dataclass(frozen=True)
class Calibrated:
    """Probabilities of all labels of all items.

    Args:
        probabilities: Given the seen labels of the item, float64 `[n, L]`; seen labels are 1 or 0.
        resamples: Corrections from bootstrap samples of the audit; empty without an audit.
        before: Probabilities before the correction, which `resamples` apply to, `[n, L]`.
        summary: What the calibration was based on; None for probabilities from elsewhere.
    """

    probabilities: Floats
    resamples: tuple[Correction, ...]
    before: Floats
    summary: CalibrationSummary | None = None


def calibrate(
    scores: npt.ArrayLike,
    observed: LabelMatrix,
    *,
    k: float,
    origin: Origin,
    answers: Answers | None = None,
    seed: int = 0,
) -> Calibrated:
    """Calibrates scores on the seen labels, and on the answers of an audit if there are any.

    Args:
        scores: Out-of-sample scores in `[0, 1]`, `[n, L]`.
        observed: Seen labels, `[n, L]`.
        k: Mean number of labels per item.
        origin: Where k comes from, a name in `ORIGINS`.
        answers: Answers of an audit or a review.
        seed: Seed of the bootstrap.
    """
    states, values = observed.dense(), np.asarray(scores, dtype=np.float64)
    without_answers = states.copy()
    if answers is not None:
        without_answers[answers.row, answers.label] = 0  # a run may have seen the answers
    curve = fit_curve(values, without_answers, k, seed=seed)
    before = apply_curve(curve, values, states)
    if answers is None:
        return Calibrated(before, (), before, CalibrationSummary(k, origin))
    audited = apply_curve(curve, values, without_answers)[answers.row, answers.label]
    n_classes = observed.n_classes
    correction = fit_correction(audited, answers.label, answers.yes, n_classes)
    resamples = resampled(audited, answers, n_classes, correction, RESAMPLES, seed)
    counts = AuditCounts(len(answers), answers.items, int(answers.yes.sum()))
    return Calibrated(
        np.where(states == 0, correction(before), before),
        tuple(resamples),
        before,
        CalibrationSummary(k, origin, counts),
    )
