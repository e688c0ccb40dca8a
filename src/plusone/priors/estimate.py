"""k and class priors from single positives alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.priors.calibration import FEWEST, SMALLEST, Scores, fit_line, k_interval
from plusone.priors.picks import given_seen, label_means, pick

ITEMS = 20_000  # largest number of items, and of labels of items, that are fitted on
ENTRIES = 600_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Priors:
    """How many labels an item has, and how often each class applies.

    Args:
        priors: Share of the items each class applies to, `[L]`.
        seen_share: Share of the items each class was seen on, `[L]`.
        k: Labels of an item on average, the sum of `priors`.
        low: Lower end of a range of k. It accounts for chance in the seen labels, not for a wrong
            model, so it contains the truth less often than a 95 % interval would.
        high: Upper end.
        estimator: Name of the estimator.
        items: Number of items with exactly one seen positive.
        probabilities: Calibrated probability of every label of every item given its seen labels,
            float32 `[N, L]`: 1 for seen positives, 0 for seen negatives.
    """

    priors: Floats
    seen_share: Floats
    k: float
    low: float
    high: float
    estimator: str
    items: int
    probabilities: npt.NDArray[np.float32]

    @property
    def seen_given_true(self) -> Floats:
        """Probability that a class is seen where it applies, `[L]` (the e of PU learning)."""
        return np.minimum(self.seen_share / np.maximum(self.priors, SMALLEST), 1.0)

    @property
    def prior_low(self) -> Floats:
        """Priors if k were at the lower end, and no less than the seen share, `[L]`."""
        return np.maximum(self.priors * (self.low / self.k), self.seen_share)

    @property
    def prior_high(self) -> Floats:
        """Priors if k were at the upper end, `[L]`."""
        return np.minimum(self.priors * (self.high / self.k), 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON, without the probabilities."""
        return {
            "k": self.k,
            "low": self.low,
            "high": self.high,
            "estimator": self.estimator,
            "items": self.items,
            "priors": self.priors.tolist(),
            "prior_low": self.prior_low.tolist(),
            "prior_high": self.prior_high.tolist(),
            "seen_share": self.seen_share.tolist(),
        }


def from_single_positives(
    probabilities: npt.ArrayLike, observed: LabelMatrix, *, interval: bool = True
) -> Priors:
    """Estimates k and class priors, assuming uniform picking among an item's labels.

    Args:
        probabilities: Out-of-sample scores in [0, 1], `[N, L]`. They need not be calibrated; a
            monotone transformation gives much the same result.
        observed: Seen labels, `[N, L]`. Items with exactly one seen positive are used.
        interval: Whether to compute the interval of k, which takes about as long again.
    """
    scores = np.asarray(probabilities, dtype=np.float64)
    if scores.shape != observed.shape:
        raise InputError(f"scores have shape {scores.shape}, labels {observed.shape}")
    if not np.isfinite(scores).all() or scores.min(initial=0) < 0 or scores.max(initial=1) > 1:
        raise InputError("scores must be probabilities from 0 to 1")
    single = np.flatnonzero(observed.per_item(1) == 1)
    if len(single) < FEWEST:
        raise InputError(
            f"{len(single)} items have exactly one seen positive; to estimate how many labels an "
            f"item has, at least {FEWEST} are needed"
        )
    states = observed.dense()
    picked, plain = pick(states), Scores.prepare(scores, single)
    rows, sample = torch.from_numpy(single), torch.from_numpy(_sample(single, observed.n_classes))
    intervals, shares, means = [], [], np.zeros(scores.shape)
    for tilted in (False, True):
        s = replace(plain, tilted=tilted)
        line = fit_line(s[sample], picked[sample])
        intervals.append(
            k_interval(s[sample], picked[sample], line) if interval else (line.k, line.k)
        )
        z = line.logits(s)
        shares.append(label_means(z[rows], picked[rows]).mean(dim=0).numpy())
        means += given_seen(z, states) / 2
    seen_share = observed.per_class(1) / max(len(observed), 1)
    priors, k = guarded(between(*shares), seen_share)
    low, high = min(ends[0] for ends in intervals), max(ends[1] for ends in intervals)
    return Priors(
        priors=priors,
        seen_share=seen_share,
        k=k,
        low=min(max(low, 1.0), k),
        high=max(min(high, observed.n_classes), k),
        estimator="pick likelihood",
        items=len(single),
        probabilities=means.astype(np.float32),
    )


def between(one: Floats, other: Floats) -> Floats:
    """The mean of two estimates of the priors, scaled to the geometric mean of their sums.

    >>> between(np.array([0.5, 0.5]), np.array([2.0, 2.0]))
    array([1., 1.])
    """
    mean = (one + other) / 2
    k = float(np.sqrt(one.sum() * other.sum()))
    return np.asarray(mean * (k / mean.sum()))


def guarded(priors: Floats, seen_share: Floats) -> tuple[Floats, float]:
    """Priors clipped to seen share <= prior <= 1, and their sum k, with 1 <= k <= L.

    >>> guarded(np.array([0.1, 0.9]), np.array([0.3, 0.7]))
    (array([0.3, 0.9]), 1.2)
    """
    bounded = np.clip(priors, seen_share, 1.0)
    total = float(bounded.sum())
    if 0 < total < 1:
        bounded, total = bounded / total, 1.0
    return bounded, total


def _sample(rows: npt.NDArray[np.int64], n_classes: int) -> npt.NDArray[np.int64]:
    """A random subset of the rows, so that the fit stays fast."""
    most = min(ITEMS, max(ENTRIES // n_classes, FEWEST))
    if len(rows) <= most:
        return rows
    order = np.random.default_rng(0).permutation(len(rows))[:most]
    return np.sort(rows[order])
