"""From out-of-sample scores to probabilities that can be taken at their word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.priors.picks import Picked, label_means, log_likelihood, posterior
from plusone.suggest.answers import Answers

QUANTILES = (0.2, 0.5, 0.8)  # of the scores of seen labels: where the shape bends
SHIFT_RIDGE = 1.0
SLOPE_RIDGE = 4.0
STIFF = 20.0  # how hard k is held
STEPS = 100
FEWEST, MOST = 20, 2_000_000  # items that are needed; entries that are fitted on
BLOCK = 2**20
SMALLEST = 1e-6
SURE = 40.0  # logit of a label that is known

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Curve:
    """A fitted curve.

    Args:
        knots: Where the shape bends, in logits of the score.
        shift: `a`.
        weights: `w`, one more than there are knots.
        class_shift: `a_c`, `[L]`.
        class_slope: `b_c`, `[L]`.
    """

    knots: Tensor
    shift: Tensor
    weights: Tensor
    class_shift: Tensor
    class_slope: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """Calibrated logits of the logits of scores, `[n, L]`."""
        shape = self.weights[0] * (x - self.knots[len(self.knots) // 2])
        for weight, knot in zip(self.weights[1:], self.knots, strict=True):
            shape = shape + weight * (x - knot).clamp(max=0)
        return self.shift + self.class_shift + self.class_slope.exp() * shape


def log_odds(scores: npt.ArrayLike) -> Floats:
    """`log(s / (1 - s))`, finite for 0 and 1 too."""
    s = np.clip(np.asarray(scores, dtype=np.float64), SMALLEST, 1 - SMALLEST)
    found: Floats = np.log(s) - np.log1p(-s)
    return found


def fit_curve(scores: Floats, observed: States, k: float, *, seed: int = 0) -> Curve:
    """The curve under which the seen labels are the most likely picks.

    Args:
        scores: Out-of-sample scores in `[0, 1]`, `[n, L]`.
        observed: What was seen, `[n, L]`.
        k: Mean number of labels of an item.
        seed: Large data is fitted on a random part of its items.
    """
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero((observed == 1).any(axis=1))
    if len(rows) < FEWEST:
        raise InputError(
            f"{len(rows)} items have a seen positive; calibration needs at least {FEWEST}"
        )
    most = max(MOST // scores.shape[1], 1000)
    if len(rows) > most:
        rows = np.sort(rng.choice(rows, most, replace=False))
    x, states = torch.from_numpy(log_odds(scores[rows])), observed[rows]
    seen = torch.from_numpy(states == 1)
    picked = _picked(states, rng)
    others = seen.clone()
    others[torch.arange(len(rows)), picked.label] = False
    zeros = torch.zeros(x.shape[1], dtype=x.dtype)
    free = [torch.zeros((), dtype=x.dtype), torch.tensor([0.5, *(-2.0,) * len(QUANTILES)]).double()]
    free = [part.requires_grad_() for part in (*free, zeros.clone(), zeros.clone())]
    knots = torch.quantile(x[seen][:MOST], torch.tensor(QUANTILES).double())

    def curve() -> Curve:
        return Curve(knots, free[0], softplus(free[1]), free[2], free[3])

    optimizer = torch.optim.LBFGS(
        free, max_iter=STEPS, history_size=20, line_search_fn="strong_wolfe"
    )

    def cost() -> Tensor:
        optimizer.zero_grad()
        made = curve()
        z = made.logits(x).masked_fill(others, SURE)
        labels = label_means(z, picked).sum(dim=1).mean()
        value = -log_likelihood(z, picked).mean() + STIFF * (labels / k - 1) ** 2
        ridge = SHIFT_RIDGE * made.class_shift.square() + SLOPE_RIDGE * made.class_slope.square()
        value = value + ridge.sum() / (2 * len(rows))
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(cost)  # type: ignore[no-untyped-call]
    made = curve()
    parts = (made.shift, made.weights, made.class_shift, made.class_slope)
    return Curve(knots, *(part.detach() for part in parts))


def apply_curve(curve: Curve, scores: npt.ArrayLike, observed: States) -> Floats:
    """Probability of every label of every item given what was seen of the item, `[n, L]`.

    Seen labels become 1 or 0.
    """
    given = np.asarray(scores)
    found = np.empty(given.shape)
    step = max(1, BLOCK // max(1, given.shape[1]))
    for start in range(0, len(given), step):
        rows = slice(start, start + step)
        states = observed[rows]
        z = curve.logits(torch.from_numpy(log_odds(given[rows])))
        picked = _picked(states, None)
        some = torch.from_numpy((states == 1).any(axis=1))[:, None]
        others = torch.from_numpy(states == 1).scatter(1, picked.label[:, None], False)
        held = z.masked_fill(others, SURE)
        after = torch.where(some, posterior(held, picked), label_means(z, picked))
        found[rows] = np.where(states == 0, after.numpy(), states == 1)
    return found


def _picked(states: States, rng: np.random.Generator | None) -> Picked:
    """Which label was named: of several seen ones a random one, or the first without `rng`."""
    order = np.zeros(states.shape) if rng is None else rng.random(states.shape)
    label = np.where(states == 1, order + 1, 0.0).argmax(axis=1)
    negative = states == -1
    return Picked(torch.from_numpy(label), torch.from_numpy(negative) if negative.any() else None)


CLASS_RIDGE = 4.0
CORRECTION_SLOPE_RIDGE = 8.0
CORRECTION_SHIFT_RIDGE = 0.1
FLATTEST = 0.05


@dataclass(frozen=True)
class Correction:
    """A fitted line.

    Args:
        shift: `a`.
        slopes: `b₁` and `b₂`.
        class_shift: `a_c`, `[L]`.
    """

    shift: float
    slopes: Floats
    class_shift: Floats

    def __call__(self, probabilities: Floats, label: npt.NDArray[np.int64] | None = None) -> Floats:
        """Corrected probabilities of `[n, L]`, or of entries `[m]` of the given classes."""
        moved = self.class_shift if label is None else self.class_shift[label]
        logits = self.shift + _sides(log_odds(probabilities)) @ self.slopes + moved
        found: Floats = np.exp(-np.logaddexp(0.0, -logits))
        return found


def fit_correction(
    probabilities: Floats,
    label: npt.NDArray[np.int64],
    yes: npt.NDArray[np.bool_],
    n_classes: int,
    *,
    weight: npt.ArrayLike = 1.0,
    start: Correction | None = None,
) -> Correction:
    """The line under which the answers are the most likely.

    Args:
        probabilities: What was said before the answers, `[m]`.
        label: Class of each answer, `[m]`.
        yes: The answers, `[m]`.
        n_classes: How many classes there are.
        weight: How much each answer counts, `[m]` or one for all.
        start: Where to begin.
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped, unused-ignore]

    x, y = _sides(log_odds(probabilities)), yes.astype(np.float64)
    counts = np.broadcast_to(np.asarray(weight, dtype=np.float64), y.shape)
    usual = np.concatenate([[0.0, 1.0, 1.0], np.zeros(n_classes)])
    ridge = np.concatenate(
        [
            [CORRECTION_SHIFT_RIDGE, CORRECTION_SLOPE_RIDGE, CORRECTION_SLOPE_RIDGE],
            np.full(n_classes, CLASS_RIDGE),
        ]
    )

    def cost(at: Floats) -> tuple[float, Floats]:
        logits = at[0] + x @ at[1:3] + at[3:][label]
        slope = counts * (np.exp(-np.logaddexp(0.0, -logits)) - y)
        away = at - usual
        gradient = ridge * away
        gradient[0] += slope.sum()
        gradient[1:3] += slope @ x
        gradient[3:] += np.bincount(label, slope, n_classes)
        value = counts @ (np.logaddexp(0.0, logits) - y * logits)
        return float(value + (ridge * away) @ away / 2), gradient

    first = usual
    if start is not None:
        first = np.array([start.shift, *start.slopes, *start.class_shift])
    bounds = [(None, None), *[(FLATTEST, None)] * 2, *[(None, None)] * n_classes]
    found = minimize(cost, first, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Correction(float(found[0]), found[1:3], found[3:])


def _sides(x: Floats) -> Floats:
    """`[..., 2]`: what lies below 0 and what lies above."""
    return np.stack([np.minimum(x, 0.0), np.maximum(x, 0.0)], axis=-1)


def resampled(
    probabilities: Floats,
    answers: Answers,
    n_classes: int,
    fitted: Correction,
    times: int,
    seed: int = 0,
) -> list[Correction]:
    """Lines that other audits of as many items might have given, by drawing the items anew."""
    rng = np.random.default_rng(seed)
    items, at = np.unique(answers.row, return_inverse=True)
    found = []
    for _ in range(times):
        counts = np.bincount(rng.integers(len(items), size=len(items)), minlength=len(items))
        found.append(
            fit_correction(
                probabilities,
                answers.label,
                answers.yes,
                n_classes,
                weight=counts[at],
                start=fitted,
            )
        )
    return found


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
    "audit": "counted in the audit and drawn to what the seen labels say",
    "estimated": "estimated from the seen labels",
    "cautious": "estimated from the seen labels, then lowered a little",
}


@dataclass(frozen=True)
class Calibrated:
    """Probabilities of all labels of all items.

    Args:
        probabilities: Given what was seen of the item, float64 `[n, L]`; seen labels are 1 or 0.
        others: What other audits of the same size might have led to; empty without an audit.
        before: Probabilities that `others` apply to.
        about: How they were made: plain values.
    """

    probabilities: Floats
    others: tuple[Correction, ...]
    before: Floats
    about: Mapping[str, Any]


def calibrate(
    scores: npt.ArrayLike,
    observed: LabelMatrix,
    *,
    k: float,
    origin: str,
    answers: Answers | None = None,
    seed: int = 0,
) -> Calibrated:
    """Calibrates scores on the seen labels, and on answers where there are some.

    Args:
        scores: Out-of-sample scores in `[0, 1]`, `[n, L]`.
        observed: What was seen, `[n, L]`.
        k: Mean number of labels of an item.
        origin: Where k comes from: a name in `ORIGINS`.
        answers: What an audit or a review found out.
        seed: Seed of the resampling of answers.
    """
    states, values = observed.dense(), np.asarray(scores, dtype=np.float64)
    unasked = states.copy()
    if answers is not None:
        unasked[answers.row, answers.label] = 0  # a run may have seen the answers
    curve = fit_curve(values, unasked, k, seed=seed)
    before = apply_curve(curve, values, states)
    about: dict[str, Any] = {"k": k, "k_from": origin}
    words = {"k": k, "origin": ORIGINS[origin]}
    if answers is None:
        about |= {"audit": None, "sentence": NO_AUDIT.format(**words)}
        return Calibrated(before, (), before, about)
    asked = apply_curve(curve, values, unasked)[answers.row, answers.label]
    n_classes = observed.n_classes
    line = fit_correction(asked, answers.label, answers.yes, n_classes)
    others = resampled(asked, answers, n_classes, line, RESAMPLES, seed)
    found = np.where(states == 0, line(before), before)
    count = {"answers": len(answers), "items": answers.items, "yes": int(answers.yes.sum())}
    about |= {"audit": count, "sentence": AUDIT.format(**words, **count)}
    return Calibrated(found, tuple(others), before, about)
