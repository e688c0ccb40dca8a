"""Hints as a prior of suggestions: scores and hints combined, as far as the seen labels agree.

The log-odds of a score get w times the hint's, standardised in each class; a label without a hint
keeps its score. w is the one of `WEIGHTS` with the highest AUC of the seen labels, which scores are
out-of-sample for; 0 leaves the hints out. No other labels are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.metrics.seen_labels import seen_auc
from plusone.probabilities.curve import sample_rows
from plusone.probabilities.log_odds import log_odds
from plusone.probabilities.scores import Floats, Ints, Scores, blocks

WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5)
MOST = 2_000_000  # labels that the weight is chosen on


def with_prior(
    scores: npt.ArrayLike | Scores,
    hints: npt.NDArray[np.float32],
    observed: LabelMatrix,
    *,
    seed: int = 0,
) -> tuple[Scores, float]:
    """Scores combined with hints, and the weight of the hints.

    Args:
        scores: Out-of-sample scores in [0, 1], `[n, L]`.
        hints: In [0, 1], NaN where there is none, `[n, L]`.
        observed: Seen labels, `[n, L]`.
        seed: Seed of the sample that the weight is chosen on, if there are many items.
    """
    scores, prior = Scores.of(scores), _standardised(hints)
    rows = sample_rows(np.flatnonzero(observed.per_item(1) > 0), observed.n_classes, seed, MOST)
    own, other, seen = log_odds(scores.at(rows)), prior(rows), observed.dense(rows)
    areas = [seen_auc(own + weight * other, seen) for weight in WEIGHTS]
    weight = WEIGHTS[int(np.argmax(areas))]
    if not weight:
        return scores, weight

    def combined(rows: Ints) -> Floats:
        return np.asarray(1 / (1 + np.exp(-(log_odds(scores.at(rows)) + weight * prior(rows)))))

    return replace(scores, at=combined), weight


def _standardised(hints: npt.NDArray[np.float32]) -> Callable[[Ints], Floats]:
    """The log-odds of hints, of mean 0 and spread 1 in each class; 0 where there is none."""
    n, n_classes = hints.shape

    def odds(rows: Ints) -> tuple[npt.NDArray[np.bool_], Floats]:
        known = ~np.isnan(hints[rows])
        return known, np.where(known, log_odds(np.nan_to_num(hints[rows], nan=0.5)), 0.0)

    count, total, squares = np.zeros((3, n_classes))
    for rows in blocks(np.arange(n), n_classes):
        known, values = odds(rows)
        count, total = count + known.sum(axis=0), total + values.sum(axis=0)
    mean = total / np.maximum(count, 1)
    for rows in blocks(np.arange(n), n_classes):
        known, values = odds(rows)
        squares += (np.where(known, values - mean, 0.0) ** 2).sum(axis=0)
    spread = np.sqrt(squares / np.maximum(count, 1))
    spread[spread == 0] = 1.0

    def standardised(rows: Ints) -> Floats:
        known, values = odds(rows)
        return np.where(known, (values - mean) / spread, 0.0)

    return standardised
