"""How far a review is, and how well the answers agree with the suggestions and each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

OPEN, YES, NO, SKIPPED = 0, 1, 2, 3
CODES = {None: OPEN, "yes": YES, "no": NO, "skip": SKIPPED}
ANSWERS = {code: answer for answer, code in CODES.items()}

States = npt.NDArray[np.int8]


def counts(states: States) -> dict[str, int]:
    """How many questions are in which state."""
    found = np.bincount(states, minlength=4).tolist()
    return {
        "questions": len(states),
        "answered": found[YES] + found[NO],
        "yes": found[YES],
        "no": found[NO],
        "skipped": found[SKIPPED],
        "left": found[OPEN],
    }


def agreement(states: States, probability: npt.NDArray[np.float32]) -> dict[str, float | None]:
    """What the answers say about the probabilities; None before the first answer.

    | name | meaning |
    | --- | --- |
    | `accepted` | share of answers that are yes |
    | `expected` | the same as the probabilities foretold it: their mean over what was answered |
    | `agreement` | share of answers on the side the probability favours |
    """
    answered = (states == YES) | (states == NO)
    if not answered.any():
        return {"accepted": None, "expected": None, "agreement": None}
    yes, p = states[answered] == YES, probability[answered]
    return {
        "accepted": float(yes.mean()),
        "expected": float(p.mean(dtype=np.float64)),
        "agreement": float((yes == (p >= 0.5)).mean()),
    }
