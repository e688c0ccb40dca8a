"""Calibration of scores on the seen labels, under uniform picking.

A `Curve` maps out-of-sample scores to logits: `a + a_l + exp(b_l) * f(x_l)` of the logit x of a
score, with an increasing, concave, piecewise linear f shared by all classes. Its parameters
maximise the likelihood of the seen labels (`plusone.probabilities.picks`) with a ridge penalty,
while the mean number of labels per item is held at a given k. No labels but the seen ones are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from plusone.errors import InputError
from plusone.probabilities._lbfgs import minimise
from plusone.probabilities.log_odds import log_odds
from plusone.probabilities.picks import CERTAIN, given_seen, label_means, log_likelihood, pick

STIFFNESS = 20.0  # weight of the penalty that holds k
FEWEST = 20  # items with a seen positive that a fit needs

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.int8]
QUANTILES = (0.2, 0.5, 0.8)  # of the scores of seen labels: the knots of f
SHIFT_RIDGE = 1.0
SLOPE_RIDGE = 4.0
STEPS = 100
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

    def cost(shift: Tensor, weights: Tensor, class_shift: Tensor, class_slope: Tensor) -> Tensor:
        z = curve(shift, weights, class_shift, class_slope).logits(x).masked_fill(others, CERTAIN)
        ridge = SHIFT_RIDGE * class_shift.square() + SLOPE_RIDGE * class_slope.square()
        held = (label_means(z, picked).sum(dim=1).mean() / k - 1) ** 2
        loss = -log_likelihood(z, picked).mean() + STIFFNESS * held
        return loss + ridge.sum() / (2 * len(picked))

    zeros = torch.zeros(x.shape[1], dtype=x.dtype)
    start = [zeros[0], torch.tensor([0.5, *(-2.0,) * len(QUANTILES)]).to(x.dtype), zeros, zeros]
    return curve(*minimise(cost, start, steps=STEPS))


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
