"""k and class priors from single positives alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.priors.calibrate import Scores, calibrate, k_interval
from plusone.priors.picks import Picked, label_means, posterior

ITEMS = 20_000
NUMBERS = 600_000
FEWEST = 20
TINY = 1e-6

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Priors:
    """How many labels an item has, and how often each class applies.

    Args:
        priors: Share of the items each class applies to, `[L]`.
        seen_share: Share of the items each class was seen on, `[L]`.
        k: Labels of an item on average, the sum of `priors`.
        low: Lower end of a range of k. It allows for chance in the seen labels, not for a wrong
            model, so that it holds the truth less often than a 95 % interval would.
        high: Upper end.
        estimator: How it was found.
        items: How many items it was found on.
        probabilities: Calibrated probability of every label of every item given which labels were
            seen, float32 `[N, L]`: 1 for seen positives, 0 for seen negatives.
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
        """Chance that a class is the one seen where it applies, `[L]` (the e of PU learning)."""
        return np.minimum(self.seen_share / np.maximum(self.priors, TINY), 1.0)

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
    """Estimates k and class priors, if annotators pick among an item's labels uniformly.

    Args:
        probabilities: What a model that has not seen an item in training says of it, `[N, L]`, in
            [0, 1]. They need not be calibrated; a rising map of them gives much the same result.
        observed: What was seen, `[N, L]`. Items with exactly one seen positive count.
        interval: Whether to find the interval of k, which costs as much again.
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
    every, plain = picked_of(observed), _ready(scores, single)
    index = torch.from_numpy(_some(single, observed.n_classes))
    named = torch.from_numpy(observed.per_item(1) > 0)[:, None]
    ends, shares, found = [], [], np.zeros(scores.shape)
    for tilted in (False, True):
        s = replace(plain, tilted=tilted)
        best = calibrate(s[index], every[index])
        ends.append(k_interval(s[index], every[index], best) if interval else (best.k, best.k))
        z = best.logits(s)
        rows = torch.from_numpy(single)
        means = label_means(z, every)
        shares.append(means[rows].mean(dim=0).numpy())
        # An item without a seen label has what it had before anybody looked.
        found += torch.where(named, posterior(z, every), means).numpy() / 2
    seen_share = observed.per_class(1) / max(len(observed), 1)
    priors, k = guarded(between(*shares), seen_share)
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    states = observed.dense()
    found[states == 1], found[states == -1] = 1.0, 0.0
    return Priors(
        priors=priors,
        seen_share=seen_share,
        k=k,
        low=min(max(low, 1.0), k),
        high=max(min(high, observed.n_classes), k),
        estimator="pick likelihood",
        items=len(single),
        probabilities=found.astype(np.float32),
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
    """Priors within what must hold, and their sum k: seen share <= prior <= 1, 1 <= k <= L.

    >>> guarded(np.array([0.1, 0.9]), np.array([0.3, 0.7]))
    (array([0.3, 0.9]), 1.2)
    """
    bounded = np.clip(priors, seen_share, 1.0)
    total = float(bounded.sum())
    if 0 < total < 1:
        bounded, total = bounded / total, 1.0
    return bounded, total


def picked_of(observed: LabelMatrix) -> Picked:
    """The first seen positive of each item (class 0 where there is none), and seen negatives."""
    states = observed.dense()
    negative = states == -1
    label = torch.from_numpy((states == 1).argmax(axis=1).astype(np.int64))
    return Picked(label, torch.from_numpy(negative) if negative.any() else None)


def _ready(scores: Floats, rows: npt.NDArray[np.int64]) -> Scores:
    """Logits of the scores, less the mean of each class over the given rows."""
    inside = np.clip(scores, TINY, 1 - TINY)
    logits = np.log(inside) - np.log1p(-inside)
    most = logits.max(axis=1)
    most = (most - most[rows].mean()) / max(float(most[rows].std()), TINY)
    centred = logits - logits[rows].mean(axis=0)
    return Scores(torch.from_numpy(centred), torch.from_numpy(most), tilted=False)


def _some(rows: npt.NDArray[np.int64], n_classes: int) -> npt.NDArray[np.int64]:
    """At most so many rows that the work stays moderate, spread evenly."""
    most = min(ITEMS, max(NUMBERS // n_classes, FEWEST))
    if len(rows) <= most:
        return rows
    order = np.random.default_rng(0).permutation(len(rows))[:most]
    return np.sort(rows[order])
