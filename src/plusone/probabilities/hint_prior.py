"""Hints as a prior of suggestions: scores and hints combined, as far as the seen labels agree.

The log-odds of a score get w times the hint's, standardised in each class; a label without a hint
keeps its score. w is the one of `WEIGHTS` with the highest AUC of the seen labels, which scores are
out-of-sample for; 0 leaves the hints out. No other labels are looked at.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.metrics.seen_labels import seen_auc
from plusone.probabilities.log_odds import log_odds

WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5)
MOST = 2_000_000  # labels that the weight is chosen on

Scores = npt.NDArray[np.float64]


def with_prior(
    scores: Scores, hints: npt.NDArray[np.float32], observed: LabelMatrix, *, seed: int = 0
) -> tuple[Scores, float]:
    """Scores combined with hints, and the weight of the hints.

    Args:
        scores: Out-of-sample scores in [0, 1], `[n, L]`.
        hints: In [0, 1], NaN where there is none, `[n, L]`.
        observed: Seen labels, `[n, L]`.
        seed: Seed of the sample that the weight is chosen on, if there are many items.
    """
    known = ~np.isnan(hints)
    count = np.maximum(known.sum(axis=0), 1)
    odds = np.where(known, log_odds(np.nan_to_num(hints, nan=0.5)), 0.0)
    centred = np.where(known, odds - odds.sum(axis=0) / count, 0.0)
    spread = np.sqrt((centred**2).sum(axis=0) / count)
    prior = centred / np.where(spread > 0, spread, 1.0)
    own = log_odds(scores)
    rows = np.flatnonzero(observed.per_item(1) > 0)
    most = max(MOST // scores.shape[1], 1000)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    seen = observed.dense(rows)
    areas = [seen_auc(own[rows] + weight * prior[rows], seen) for weight in WEIGHTS]
    weight = WEIGHTS[int(np.argmax(areas))]
    combined: Scores = scores
    if weight:
        combined = 1 / (1 + np.exp(-(own + weight * prior)))
    return combined, weight
