"""The curve from scores to probabilities: one shape for all classes, bent a little for each.

    logit p = a + a_c + e^{b_c} Σ_j w_j f_j(logit s),   w_j >= 0

The shape rises, in straight pieces. For a class, a_c moves it and b_c stretches it, and both are
drawn towards 0: a class with few seen labels keeps to the common curve.

It is fitted to the labels that were seen, taken as uniform picks (`plusone.priors.picking`). Picks
alone can hardly tell an item that has two labels from one that has either, so the mean number of
labels of an item is held at a given k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from plusone.errors import InputError
from plusone.priors.picking import Picked, label_means, log_likelihood, posterior

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
