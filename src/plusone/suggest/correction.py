"""Correcting probabilities by answers: one bent line for all classes, moved a little for each.

    logit p' = a + b₁ min(logit p, 0) + b₂ max(logit p, 0) + a_c,   b > 0

b is drawn towards 1 and each a_c towards 0, so that a few answers change little, a class without
any keeps to the common line, and answers about likely labels leave the slope of the others alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plusone.suggest.answers import Answers
from plusone.suggest.curve import Floats, log_odds

CLASS_RIDGE = 4.0
SLOPE_RIDGE = 8.0
SHIFT_RIDGE = 0.1
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
        [[SHIFT_RIDGE, SLOPE_RIDGE, SLOPE_RIDGE], np.full(n_classes, CLASS_RIDGE)]
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
