"""Probabilities corrected by answers, in `plusone suggest --audit` and while a review is under way.

Answers correct the probabilities p of unobserved labels,

    logit p' = a + b_1 min(logit p, 0) + b_2 max(logit p, 0) + a_l,

by penalised logistic regression: few answers change little. It uses NumPy only, so the review page
needs no torch.

In a review, `shift_groups` adds a shift for each group and class with answers, of standard
deviation 1 / sqrt(GROUP_RIDGE) before them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plusone.probabilities.log_odds import log_odds

CLASS_RIDGE = 4.0
SLOPE_RIDGE = 8.0
SHIFT_RIDGE = 1.0
GROUP_RIDGE = 0.5
SMALLEST_SLOPE = 0.05
STEPS = 50
CLOSE = 1e-8

Floats = npt.NDArray[np.float64]


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

    def __call__(
        self, probabilities: npt.ArrayLike, label: npt.NDArray[np.integer] | None = None
    ) -> Floats:
        """Corrected probabilities of `[n, L]`, or of entries `[m]` of the given classes."""
        class_shift = self.class_shift if label is None else self.class_shift[label]
        logits = self.shift + _sides(probabilities) @ self.slopes + class_shift
        return np.asarray(np.exp(-np.logaddexp(0.0, -logits)))


def fit_correction(
    probabilities: npt.ArrayLike,
    label: npt.NDArray[np.integer],
    yes: npt.NDArray[np.bool_],
    n_classes: int,
    weight: Floats | None = None,
) -> Correction:
    """The most likely correction, shrunk towards the identity.

    Args:
        probabilities: Probabilities without the answers, `[m]`.
        label: Class of each answer, `[m]`.
        yes: The answers, `[m]`.
        n_classes: Number of classes.
        weight: How much each answer counts, `[m]`; all 1 by default.
    """
    x, y = _sides(probabilities), np.asarray(yes, dtype=np.float64)
    counted = np.ones(len(y)) if weight is None else weight
    asked, place = np.unique(label, return_inverse=True)  # other classes keep a shift of 0
    ridge = np.concatenate([[SHIFT_RIDGE], [SLOPE_RIDGE] * 2, [CLASS_RIDGE] * len(asked)])
    usual = np.concatenate([[0.0, 1.0, 1.0], np.zeros(len(asked))])
    free = np.ones(len(usual), dtype=bool)
    theta = _newton(x, place, y, counted, usual, ridge, free, usual)
    while (theta[1:3] < SMALLEST_SLOPE).any():  # corrections must increase
        free[1:3] &= theta[1:3] >= SMALLEST_SLOPE
        start = np.where(free, usual, SMALLEST_SLOPE)
        theta = _newton(x, place, y, counted, usual, ridge, free, start)
    class_shift = np.zeros(n_classes)
    class_shift[asked] = theta[3:]
    return Correction(float(theta[0]), theta[1:3], class_shift)


def counted_once(topic: npt.NDArray[np.int64]) -> Floats:
    """Weights of answers `[m]` by which each topic (a group and a class) counts as one answer.

    >>> counted_once(np.array([4, 7, 4])).tolist()
    [0.5, 1.0, 0.5]
    """
    _, place, count = np.unique(topic, return_inverse=True, return_counts=True)
    return np.asarray(1 / count[place])


def shift_groups(
    probabilities: Floats,
    topic: npt.NDArray[np.int64],
    asked: npt.NDArray[np.int64],
    yes: npt.NDArray[np.bool_],
) -> Floats:
    """Probabilities with a shift for each topic (a group and a class) that has answers.

    Args:
        probabilities: `[m]`.
        topic: The topic of each, `[m]`.
        asked: Which of them were answered, `[n]`.
        yes: The answers, `[n]`.

    >>> shift_groups(np.full(3, 0.5), np.array([0, 0, 1]), np.array([0]), np.array([True])).round(2)
    array([0.66, 0.66, 0.5 ])
    """
    if not len(asked):
        return probabilities
    known, place = np.unique(topic[asked], return_inverse=True)
    z, shift = log_odds(probabilities), np.zeros(len(known))
    for _ in range(STEPS):  # the cost of each shift is convex, and curved by at least the ridge
        p = 1 / (1 + np.exp(-np.clip(z[asked] + shift[place], -30, 30)))
        slope = np.bincount(place, p - yes, len(known)) + GROUP_RIDGE * shift
        step = slope / (np.bincount(place, p * (1 - p), len(known)) + GROUP_RIDGE)
        shift -= np.clip(step, -1, 1)
    at = np.searchsorted(known, topic).clip(max=len(known) - 1)
    shifts = np.where(known[at] == topic, shift[at], 0.0)
    return np.asarray(np.exp(-np.logaddexp(0.0, -(z + shifts))))


def _newton(
    x: Floats,
    place: npt.NDArray[np.integer],
    y: Floats,
    counted: Floats,
    usual: Floats,
    ridge: Floats,
    free: npt.NDArray[np.bool_],
    start: Floats,
) -> Floats:
    """Minimises the penalised cost over the free parameters (shift, slopes, class shifts)."""

    def logits(theta: Floats) -> Floats:
        return np.asarray(theta[0] + x @ theta[1:3] + theta[3:][place])

    def cost(theta: Floats) -> float:
        z = logits(theta)
        loss = (counted * (np.logaddexp(0.0, z) - y * z)).sum()
        return float(loss + (ridge * (theta - usual) ** 2).sum() / 2)

    common = np.column_stack([np.ones(len(y)), x])
    n_asked = len(usual) - 3
    theta, value = start, cost(start)
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(logits(theta), -30, 30)))
        error, weight = counted * (p - y), counted * p * (1 - p)
        by_class = np.bincount(place, error, n_asked)
        gradient = np.concatenate([error @ common, by_class]) + ridge * (theta - usual)
        hessian = np.diag(ridge)
        hessian[:3, :3] += (common * weight[:, None]).T @ common
        for column in range(3):
            cross = np.bincount(place, weight * common[:, column], n_asked)
            hessian[column, 3:], hessian[3:, column] = cross, cross
        hessian[3:, 3:] += np.diag(np.bincount(place, weight, n_asked))
        step = np.zeros_like(theta)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        length = 1.0
        while cost(theta - length * step) > value and length > CLOSE:
            length /= 2
        theta = theta - length * step
        before, value = value, cost(theta)
        if before - value < CLOSE:
            break
    return np.asarray(theta)


def _sides(probabilities: npt.ArrayLike) -> Floats:
    """The negative and the positive part of the log-odds, `[..., 2]`."""
    x = log_odds(probabilities)
    return np.stack([np.minimum(x, 0.0), np.maximum(x, 0.0)], axis=-1)
