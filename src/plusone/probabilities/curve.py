"""The curve from scores to probabilities, and its fit to what is known of the labels.

    log-odds of the probability = f(log-odds of the score) + offset of the class,

with one increasing, piecewise linear f for all classes: within a class the order of items does not
change. The curve is the most likely one, with a ridge penalty. Items with all labels known enter by
cross-entropy, items with some seen labels by the likelihood of the pick
(`plusone.probabilities.picks`), with the mean number of labels per item held at k, because picks
alone hardly determine it. The scores must be those of items that the model was not trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.answers import are_answers
from plusone.probabilities.log_odds import log_odds
from plusone.probabilities.picks import (
    CERTAIN,
    UNIFORM,
    Picking,
    given_seen,
    other_positives,
    pick,
)
from plusone.probabilities.scores import Floats, Ints, Scores, blocks

FEWEST = 20  # items with a seen positive that a fit needs
QUANTILES = (0.2, 0.5, 0.8)  # of the scores of known positives: the knots of f
OFFSET_RIDGE = 100.0  # classes differ little; smaller ridges spoil the top of the ranking
SLOPE_RIDGE = 4.0  # of the logarithms of neighbouring slopes
STIFFNESS = 20.0  # weight of the penalty that holds k
SPREAD = 3.0  # of the scores in the units of the fit
MOST = 500_000  # labels that are fitted on
LEAST_ITEMS = 1_000  # that are fitted on, even if they have more labels

States = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Curve:
    """An increasing map from the log-odds of scores to those of probabilities.

    `y_l = offset_l + slope_0 x + sum_j (slope_{j+1} - slope_j) max(x - knot_j, 0)`; without knots,
    with slope 1 and offsets 0 it gives the scores themselves.

    Args:
        knots: `J` places where the slope changes, ascending.
        slopes: `J + 1` slopes, all positive.
        offsets: One per class.
    """

    knots: tuple[float, ...]
    slopes: tuple[float, ...]
    offsets: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Calibrated log-odds of the log-odds of scores, `[..., L]`."""
        result = torch.tensor(self.offsets, dtype=x.dtype, device=x.device)
        result = result + self.slopes[0] * x
        for knot, before, after in zip(self.knots, self.slopes, self.slopes[1:], strict=False):
            result = result + (after - before) * (x - knot).clamp(min=0)
        return result

    def inverse(self, y: Floats) -> Floats:
        """The log-odds of the scores `[L]` that have these calibrated log-odds."""
        y = np.asarray(y, dtype=np.float64) - np.asarray(self.offsets)
        knots, slopes = np.asarray(self.knots), np.asarray(self.slopes)
        # Without offsets: values at the knots, where the line through 0 changes its slope.
        values = slopes[0] * knots + np.array(
            [(np.diff(slopes)[:j] * (knots[j] - knots[:j])).sum() for j in range(len(knots))]
        )
        piece = np.searchsorted(values, y)
        first = np.maximum(piece - 1, 0)
        from_knot = (y - values[first]) / slopes[piece] + knots[first] if len(knots) else y
        return np.asarray(np.where(piece == 0, y / slopes[0], from_knot))

    def given_seen(
        self, scores: npt.ArrayLike, observed: States, picks: Picking = UNIFORM
    ) -> Floats:
        """Probability of every label given the seen labels of its item, `[N, L]`.

        Seen labels become 1 or 0.

        Args:
            scores: Out-of-sample scores in `[0, 1]`, `[N, L]`.
            observed: Seen labels, `[N, L]`.
            picks: How labels are picked.
        """
        values = np.asarray(scores)
        probabilities = np.empty(values.shape)
        for rows in blocks(np.arange(len(values)), values.shape[1]):
            z = self(torch.from_numpy(log_odds(values[rows])))
            probabilities[rows] = given_seen(z, observed[rows], picks)
        return probabilities


def fit_to_picks(
    scores: npt.ArrayLike | Scores,
    observed: LabelMatrix,
    k: float,
    *,
    picks: Picking = UNIFORM,
    seed: int = 0,
    rows: Ints | None = None,
) -> Curve:
    """The most likely curve for `Curve.given_seen`.

    Args:
        scores: Out-of-sample scores in `[0, 1]`, `[N, L]`.
        observed: Seen labels, `[N, L]`.
        k: Mean number of labels per item.
        picks: How labels are picked.
        seed: Seed of the subsample that large data is fitted on.
        rows: The items to fit on, int64; by default all with a seen positive.
    """
    rows = np.flatnonzero(observed.per_item(1) > 0) if rows is None else rows
    if len(rows) < FEWEST:
        raise InputError(
            f"{len(rows)} items have a seen positive; calibration needs at least {FEWEST}"
        )
    rows = sample_rows(rows, observed.n_classes, seed)
    x = torch.from_numpy(log_odds(Scores.of(scores).at(rows)))
    return fit_curve(x, observed.dense(rows), k, picks=picks, before_pick=True)


def sample_rows(rows: Ints, n_classes: int, seed: int = 0, most: int | None = None) -> Ints:
    """The rows, or some of them, drawn at random and ascending, where they have many labels.

    Args:
        rows: Items, int64.
        n_classes: L.
        seed: Of the draw.
        most: How many labels are taken, but for `LEAST_ITEMS`; by default those of a curve.
    """
    items = max((MOST if most is None else most) // max(n_classes, 1), LEAST_ITEMS)
    if len(rows) <= items:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, items, replace=False))


def fit_curve(
    log_odds: Tensor,
    states: States,
    k: float | None,
    *,
    complete: npt.NDArray[np.bool_] | None = None,
    picks: Picking = UNIFORM,
    before_pick: bool = False,
) -> Curve:
    """The most likely curve.

    Args:
        log_odds: Log-odds of out-of-sample scores, float64 `[N, L]`.
        states: Labels, `[N, L]`; every item has a seen positive, or all labels. Those that are
            answers (`mark_answers`) enter by cross-entropy, and the pick by its likelihood given
            them.
        k: Mean number of labels per item to hold, if given.
        complete: Which items enter by all their labels, bool `[N]`; none by default.
        picks: How labels are picked.
        before_pick: What is held at k: the mean of `PickModel.label_means`, from which
            probabilities given the pick follow, or that of the curve itself, which is what a
            prediction gives. They differ where a model doubts that an item has any label.
    """
    unit = float(log_odds.std()) / SPREAD or 1.0
    x = log_odds / unit
    complete = np.zeros(len(states), dtype=np.bool_) if complete is None else complete
    positive = torch.from_numpy(states >= 1)
    knots = torch.quantile(x[positive][:MOST], torch.tensor(QUANTILES, dtype=x.dtype))
    all_known, some_known = torch.from_numpy(complete), torch.from_numpy(~complete)
    picked = pick(states[~complete], np.random.default_rng(0))
    others = other_positives(states[~complete], picked)
    asked = torch.from_numpy(are_answers(states) & ~complete[:, None])
    yes = positive[asked].to(x.dtype)
    truth = positive[all_known].to(x.dtype)

    def curve(shift: Tensor, log_slopes: Tensor, offsets: Tensor) -> Tensor:
        slopes = log_slopes.exp()
        y: Tensor = shift + offsets + slopes[0] * x
        for knot, change in zip(knots, slopes.diff(), strict=True):
            y = y + change * (x - knot).clamp(min=0)
        return y

    def cost(shift: Tensor, log_slopes: Tensor, offsets: Tensor) -> Tensor:
        z = curve(shift, log_slopes, offsets)
        ridge = (
            OFFSET_RIDGE * offsets.square().sum() + SLOPE_RIDGE * log_slopes.diff().square().sum()
        )
        total, means = ridge / 2, torch.sigmoid(z)
        if len(truth):
            total = total + binary_cross_entropy_with_logits(z[all_known], truth, reduction="sum")
        if len(yes):
            total = total + binary_cross_entropy_with_logits(z[asked], yes, reduction="sum")
        if len(picked):
            certain = z[some_known].masked_fill(others, CERTAIN)
            total = total - picks.log_likelihood(certain, picked).sum()
            means = picks.label_means(certain, picked) if before_pick else means
        held = 0.0 if k is None else (means.sum(dim=1).mean() / k - 1) ** 2
        return total / len(z) + STIFFNESS * held

    start = [
        torch.zeros((), dtype=x.dtype),
        torch.full((len(QUANTILES) + 1,), -0.5, dtype=x.dtype),
        torch.zeros(x.shape[1], dtype=x.dtype),
    ]
    shift, log_slopes, offsets = _minimise(cost, start)
    return Curve(
        tuple((knots * unit).tolist()),
        tuple((log_slopes.exp() / unit).tolist()),
        tuple((shift + offsets).tolist()),
    )


def _minimise(cost: Callable[..., Tensor], start: Sequence[Tensor]) -> list[Tensor]:
    """Parameters that minimise a smooth cost, by L-BFGS with gradients from autograd."""
    from scipy.optimize import minimize  # type: ignore[import-untyped, unused-ignore]

    sizes, shapes = [part.numel() for part in start], [part.shape for part in start]

    def parts(values: Floats) -> list[Tensor]:
        split = torch.split(torch.from_numpy(np.array(values)), sizes)
        return [part.reshape(shape) for part, shape in zip(split, shapes, strict=True)]

    @torch.enable_grad()  # type: ignore[untyped-decorator, unused-ignore]
    def value_and_slope(values: Floats) -> tuple[float, Floats]:
        parameters = [part.requires_grad_() for part in parts(values)]
        value = cost(*parameters)
        slopes = torch.autograd.grad(value, parameters)
        return value.item(), torch.cat([slope.reshape(-1) for slope in slopes]).numpy()

    first = torch.cat([part.reshape(-1) for part in start]).numpy()
    options = {"maxiter": 100, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-7}
    found = minimize(value_and_slope, first, jac=True, method="L-BFGS-B", options=options)
    return parts(found.x)
