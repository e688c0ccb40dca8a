"""Probabilities corrected by answers, in `plusone suggest --audit` and while a review is under way.

Answers correct the probabilities p of unobserved labels,

    logit p' = a + b_1 min(logit p, 0) + b_2 max(logit p, 0) + a_l,

by penalised logistic regression: few answers change little. It uses NumPy only, so the review page
needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plusone.scores import log_odds

CLASS_RIDGE = 4.0
SLOPE_RIDGE = 8.0
SHIFT_RIDGE = 1.0
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
) -> Correction:
    """The most likely correction, shrunk towards the identity.

    Args:
        probabilities: Probabilities without the answers, `[m]`.
        label: Class of each answer, `[m]`.
        yes: The answers, `[m]`.
        n_classes: Number of classes.
    """
    x, y = _sides(probabilities), np.asarray(yes, dtype=np.float64)
    asked, place = np.unique(label, return_inverse=True)  # other classes keep a shift of 0
    ridge = np.concatenate([[SHIFT_RIDGE], [SLOPE_RIDGE] * 2, [CLASS_RIDGE] * len(asked)])
    usual = np.concatenate([[0.0, 1.0, 1.0], np.zeros(len(asked))])
    free = np.ones(len(usual), dtype=bool)
    theta = _newton(x, place, y, usual, ridge, free, usual)
    while (theta[1:3] < SMALLEST_SLOPE).any():  # corrections must increase
        free[1:3] &= theta[1:3] >= SMALLEST_SLOPE
        start = np.where(free, usual, SMALLEST_SLOPE)
        theta = _newton(x, place, y, usual, ridge, free, start)
    class_shift = np.zeros(n_classes)
    class_shift[asked] = theta[3:]
    return Correction(float(theta[0]), theta[1:3], class_shift)


def _newton(
    x: Floats,
    place: npt.NDArray[np.integer],
    y: Floats,
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
        loss = (np.logaddexp(0.0, z) - y * z).sum()
        return float(loss + (ridge * (theta - usual) ** 2).sum() / 2)

    common = np.column_stack([np.ones(len(y)), x])
    n_asked = len(usual) - 3
    theta, value = start, cost(start)
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(logits(theta), -30, 30)))
        error, weight = p - y, p * (1 - p)
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
