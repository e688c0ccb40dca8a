"""From out-of-sample scores to probabilities that can be taken at their word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.suggest.answers import Answers
from plusone.suggest.correction import Correction, fit_correction, resampled
from plusone.suggest.curve import Floats, apply_curve, fit_curve

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
