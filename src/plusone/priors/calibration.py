"""Calibration of scores on the seen labels, under uniform picking.

A calibrator maps out-of-sample scores to logits. Its parameters maximise the likelihood of the seen
labels (`plusone.priors.picks`) with a ridge penalty; the mean number of labels per item, k, can be
held at a given value. No labels other than the seen ones are used. `fit_to_picks` does the fit,
for two families of maps of the logit x of a score:

- `Line`: `slope * (x_l - mean_l) + tilt * m + offset_l`, with m the largest centred logit of the
  item, standardised. It has few parameters, so that k can be estimated along with them. The tilt
  is for scores that compete within an item, such as those of a softmax: there a score of 1/3 may
  mean doubt among three labels, or three certain ones. It can be left out.
- `Curve`: `a + a_l + exp(b_l) * f(x_l)` with an increasing, concave, piecewise linear f shared by
  all classes. It follows the scores more closely, and needs k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from plusone.errors import InputError
from plusone.priors.lbfgs import minimise
from plusone.priors.picks import (
    CERTAIN,
    Picked,
    given_seen,
    label_means,
    log_likelihood,
    pick,
)

STIFFNESS = 20.0  # weight of the penalty that holds k
SMALLEST = 1e-6  # scores are clipped to [SMALLEST, 1 - SMALLEST]
FEWEST = 20  # items with a seen positive that a fit needs

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]


def log_odds(scores: npt.ArrayLike) -> Floats:
    """`log(s / (1 - s))`, finite for 0 and 1 too."""
    s = np.clip(np.asarray(scores, dtype=np.float64), SMALLEST, 1 - SMALLEST)
    return np.asarray(np.log(s) - np.log1p(-s))


def fit_to_picks(
    logits: Callable[..., Tensor],
    penalty: Callable[..., Tensor],
    start: Sequence[Tensor],
    picked: Picked,
    *,
    k: float | None,
    steps: int,
) -> tuple[Tensor, ...]:
    """Parameters that maximise the penalised likelihood of the seen labels.

    Args:
        logits: Takes the parameters and returns logits `[N, L]`.
        penalty: Takes the parameters and returns what is subtracted from the log-likelihood.
        start: Initial parameters.
        picked: The seen labels.
        k: Mean number of labels per item to hold, if given.
        steps: Largest number of iterations.
    """

    def cost(*parameters: Tensor) -> Tensor:
        z = logits(*parameters)
        value = -log_likelihood(z, picked).mean() + penalty(*parameters) / len(picked)
        if k is not None:
            value = value + STIFFNESS * (label_means(z, picked).sum(dim=1).mean() / k - 1) ** 2
        return value

    return minimise(cost, start, steps=steps)


# Line: estimates k

SPREAD = 2.0  # standard deviation of the Gaussian priors of the parameters
STARTS = (1.2, 2.0, 4.0)  # initial values of k; the likelihood is flat in places
FIRST_STEPS = 15  # from each start; the best one is then continued
LINE_STEPS = 60
ALLOWED = 1.92  # drop of the log-likelihood at the ends of a 95 % interval: half of chi2(1)
CLOSE = 0.05  # relative distance from its target at which k counts as held
BELOW = (0.8, 0.5, 0.2, 0.0)  # values of k - 1 that are tried, relative to the best
ABOVE = (1.25, 1.7, 2.5, 5.0)


@dataclass(frozen=True)
class Scores:
    """Out-of-sample scores, prepared for a `Line`.

    Args:
        s: Logits of the scores, centred by class, float64 `[N, L]`.
        largest: The largest of each item, standardised, `[N]`.
        tilted: Whether `largest` is used.
    """

    s: Tensor
    largest: Tensor
    tilted: bool

    @classmethod
    def prepare(cls, scores: npt.ArrayLike, rows: npt.NDArray[np.int64]) -> Scores:
        """Logits of scores `[N, L]`; the given rows determine means and standard deviations."""
        x = log_odds(scores)
        largest = x.max(axis=1)
        largest = (largest - largest[rows].mean()) / max(float(largest[rows].std()), SMALLEST)
        centred = x - x[rows].mean(axis=0)
        return cls(torch.from_numpy(centred), torch.from_numpy(largest), tilted=False)

    def __getitem__(self, rows: Tensor) -> Scores:
        return replace(self, s=self.s[rows], largest=self.largest[rows])


@dataclass(frozen=True)
class Line:
    """A fitted linear map from scores to logits.

    Args:
        slope: Factor of the scores.
        tilt: Factor of the item's largest score.
        offsets: One per class, `[L]`.
        log_likelihood: Log-likelihood of all seen labels, without the penalty.
        k: Mean number of labels per item.
    """

    slope: Tensor
    tilt: Tensor
    offsets: Tensor
    log_likelihood: float
    k: float

    def logits(self, scores: Scores) -> Tensor:
        """Calibrated logits, `[N, L]`."""
        return scores.s * self.slope + self.offsets + self.tilt * scores.largest[:, None]


def fit_line(scores: Scores, picked: Picked, k: float | None = None) -> Line:
    """The most likely line.

    Args:
        scores: Out-of-sample scores.
        picked: The seen labels.
        k: Mean number of labels per item to hold, if given.
    """
    n_classes = scores.s.shape[1]
    starts = [min(start, n_classes / 2) for start in STARTS] if k is None else [k]
    lines = [
        _improve(scores, picked, _initial(scores, picked, start), k, FIRST_STEPS)
        for start in starts
    ]
    return _improve(scores, picked, max(lines, key=lambda line: line.log_likelihood), k)


def k_interval(scores: Scores, picked: Picked, best: Line) -> tuple[float, float]:
    """Profile likelihood interval of k (95 %).

    The other parameters are fitted anew for each k. The interval accounts for chance in the seen
    labels only, not for a wrong model.
    """
    return _bound(scores, picked, best, BELOW), _bound(scores, picked, best, ABOVE)


def _bound(scores: Scores, picked: Picked, best: Line, factors: Sequence[float]) -> float:
    """The k at which the log-likelihood has dropped by `ALLOWED`, by linear interpolation."""
    n_classes, previous_k, previous_drop = scores.s.shape[1], best.k, 0.0
    line = best
    for factor in factors:
        target = min(1 + max(best.k - 1, 0.01) * factor, n_classes)
        line = _fit_with_k(scores, picked, line, max(target, 1.0005))
        drop = best.log_likelihood - line.log_likelihood
        if drop > ALLOWED:
            share = (ALLOWED - previous_drop) / (drop - previous_drop)
            return previous_k + share * (line.k - previous_k)
        previous_k, previous_drop = line.k, max(drop, previous_drop)
        if target == n_classes:
            break
    return previous_k


def _fit_with_k(scores: Scores, picked: Picked, start: Line, k: float) -> Line:
    """The best line with this k; from another start if the given one does not lead there."""
    line = _improve(scores, picked, start, k)
    if abs(line.k / k - 1) <= CLOSE:
        return line
    other = _improve(scores, picked, _initial(scores, picked, k), k)
    finite = [entry for entry in (line, other) if math.isfinite(entry.k)]
    return min(finite, key=lambda entry: abs(entry.k / k - 1), default=start)


def _initial(scores: Scores, picked: Picked, k: float) -> Line:
    share = (_seen_counts(scores, picked) / len(picked) * k).clamp(1e-6, 0.9)
    spread = scores.s.std().clamp(min=1e-6)
    return Line(1 / spread, torch.zeros((), dtype=scores.s.dtype), torch.logit(share), 0.0, k)


def _improve(
    scores: Scores, picked: Picked, start: Line, k: float | None, steps: int = LINE_STEPS
) -> Line:
    usual_offsets = torch.log(_seen_counts(scores, picked) / len(picked))
    usual_offsets = usual_offsets - usual_offsets.mean()
    usual_log_slope = -scores.s.std().clamp(min=1e-6).log()

    def line(log_slope: Tensor, offsets: Tensor, tilt: Tensor = start.tilt) -> Line:
        return replace(start, slope=log_slope.exp(), offsets=offsets, tilt=tilt)

    def penalty(log_slope: Tensor, offsets: Tensor, tilt: Tensor = start.tilt) -> Tensor:
        away = offsets - offsets.mean() - usual_offsets
        squares = (away**2).sum() + (log_slope - usual_log_slope) ** 2 + tilt**2
        return squares / (2 * SPREAD**2)

    free = [start.slope.log(), start.offsets, *([start.tilt] if scores.tilted else [])]
    best = line(
        *fit_to_picks(
            lambda *parameters: line(*parameters).logits(scores),
            penalty,
            free,
            picked,
            k=k,
            steps=steps,
        )
    )
    z = best.logits(scores)
    return replace(
        best,
        log_likelihood=float(log_likelihood(z, picked).sum()),
        k=float(label_means(z, picked).sum(dim=1).mean()),
    )


def _seen_counts(scores: Scores, picked: Picked) -> Tensor:
    """How often each class was seen, plus one half, `[L]`."""
    return torch.bincount(picked.label, minlength=scores.s.shape[1]).to(scores.s.dtype) + 0.5


# Curve: probabilities for a known k

QUANTILES = (0.2, 0.5, 0.8)  # of the scores of seen labels: the knots of f
SHIFT_RIDGE = 1.0
SLOPE_RIDGE = 4.0
CURVE_STEPS = 100
MOST = 2_000_000  # entries that are fitted on
BLOCK = 2**20


@dataclass(frozen=True)
class Curve:
    """A fitted curve, `a + a_l + exp(b_l) * f(x_l)`.

    f(x) = w_0 (x - t_mid) + sum_j w_j min(x - t_j, 0), with knots t and all w positive.

    Args:
        knots: The knots t, in logits of the score.
        shift: a.
        weights: w, one more than there are knots.
        class_shift: a_l, `[L]`.
        class_slope: b_l, `[L]`.
    """

    knots: Tensor
    shift: Tensor
    weights: Tensor
    class_shift: Tensor
    class_slope: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """Calibrated logits of the logits of scores, `[N, L]`."""
        shape = self.weights[0] * (x - self.knots[len(self.knots) // 2])
        for weight, knot in zip(self.weights[1:], self.knots, strict=True):
            shape = shape + weight * (x - knot).clamp(max=0)
        return self.shift + self.class_shift + self.class_slope.exp() * shape


def fit_curve(scores: Floats, observed: States, k: float, *, seed: int = 0) -> Curve:
    """The most likely curve.

    Args:
        scores: Out-of-sample scores in `[0, 1]`, `[N, L]`.
        observed: Seen labels, `[N, L]`.
        k: Mean number of labels per item.
        seed: Seed of the subsample that large data is fitted on.
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
    seen, picked = torch.from_numpy(states == 1), pick(states, rng)
    others = seen.scatter(1, picked.label[:, None], False)
    knots = torch.quantile(x[seen][:MOST], torch.tensor(QUANTILES).double())

    def curve(shift: Tensor, weights: Tensor, class_shift: Tensor, class_slope: Tensor) -> Curve:
        return Curve(knots, shift, softplus(weights), class_shift, class_slope)

    def penalty(shift: Tensor, weights: Tensor, class_shift: Tensor, class_slope: Tensor) -> Tensor:
        ridge = SHIFT_RIDGE * class_shift.square() + SLOPE_RIDGE * class_slope.square()
        return ridge.sum() / 2

    zeros = torch.zeros(x.shape[1], dtype=x.dtype)
    start = [zeros[0], torch.tensor([0.5, *(-2.0,) * len(QUANTILES)]).to(x.dtype), zeros, zeros]
    return curve(
        *fit_to_picks(
            lambda *parameters: curve(*parameters).logits(x).masked_fill(others, CERTAIN),
            penalty,
            start,
            picked,
            k=k,
            steps=CURVE_STEPS,
        )
    )


def apply_curve(curve: Curve, scores: npt.ArrayLike, observed: States) -> Floats:
    """Probability of every label given the seen labels of its item, `[N, L]`.

    Seen labels become 1 or 0.
    """
    values = np.asarray(scores)
    probabilities = np.empty(values.shape)
    step = max(1, BLOCK // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        z = curve.logits(torch.from_numpy(log_odds(values[rows])))
        probabilities[rows] = given_seen(z, observed[rows])
    return probabilities
