"""k and class priors from the seen positives alone.

If each of an item's labels Y is equally likely to be the seen one, no model predicts the seen label
more often than E[1 / |Y|], whatever it knows of the item: even one that knows all of Y has to guess
which of them was seen. So a model that is right about the seen label with probability a (out of
sample) shows that the harmonic mean of |Y| is at most 1 / a. The mean, k, is larger than the
harmonic mean where items differ, and smaller than 1 / a suggests where the model errs about Y.
How much of 1 / a - 1 is labels, and how much is error, cannot be told from seen labels. The shares
below (`MIDDLE`, `LOWEST`, `HIGHEST`) come from data sets whose labels are known
(docs/evidence/promises.md): where the model is hardly better than naming the most frequent class,
the range reaches down to what is seen.

From features, the model is kernel ridge regression on the seen labels. Its leave-one-out
predictions have a closed form, so every item is scored by a model that was not fitted on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.closed_form.kernel import KernelMap, n_landmarks
from plusone.closed_form.ridge import Ridge, pick_probabilities, seen_label_regression
from plusone.data.groups import group_numbers
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.curve import FEWEST, fit_to_picks
from plusone.probabilities.log_odds import SMALLEST

MIDDLE = (0.5, 1.1)  # share of 1 / a - 1 that is labels: for a model without skill, and with it
LOWEST = (0.0, 0.2)  # the same for the lower end of the range
HIGHEST = (1.5, 2.0)  # and for the upper end
SKILL = 1.8  # a model has skill if it is right this many times as often as the commonest class
CAUTION = 1000  # items for which the cautious estimate is halfway to the lower end
BLOCK = 1024  # items at once
ITEMS = 20_000  # largest number of items whose features are used
FEW_PENALTIES = (0.1, 0.25, 0.6, 1.5, 4.0, 10.0)  # one is chosen by the leave-one-out error
NOISE = 1.64  # standard errors of a that the range allows for

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabelsPerItem:
    """k, the mean number of labels per item.

    Args:
        k: The estimate.
        low: Lower end of its range, at least the number of labels that are seen.
        high: Upper end.
        items: Number of items with a seen positive.
        source: Whether it is given, and has no range, or estimated from seen labels.
    """

    k: float
    low: float
    high: float
    items: int
    source: Literal["given", "estimated"] = "estimated"

    @classmethod
    def given(cls, k: float) -> LabelsPerItem:
        """A k that is known."""
        return cls(k, k, k, 0, "given")

    @property
    def cautious(self) -> float:
        """A low estimate, to accept labels that nobody checks: the lower, the fewer the items."""
        return self.low + (self.k - self.low) * self.items / (self.items + CAUTION)


@dataclass(frozen=True)
class Priors:
    """How many labels an item has, and how often each class applies.

    Args:
        priors: Share of the items each class applies to, `[L]`.
        seen_share: Share of the items with a seen positive that each class was seen on, `[L]`.
        k: Labels of an item on average.
        low: Lower end of a range of k, at least the number of labels that are seen.
        high: Upper end.
        items: Number of items with a seen positive.
        probabilities: Calibrated probability of every label of every item given its seen labels,
            float32 `[N, L]`: 1 for seen positives, 0 for seen negatives.
    """

    priors: Floats
    seen_share: Floats
    k: float
    low: float
    high: float
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
            "items": self.items,
            "priors": self.priors.tolist(),
            "prior_low": self.prior_low.tolist(),
            "prior_high": self.prior_high.tolist(),
            "seen_share": self.seen_share.tolist(),
        }


def labels_per_item(scores: npt.ArrayLike, observed: LabelMatrix) -> LabelsPerItem:
    """Estimates k from how often the highest score of an item is that of a seen label.

    An item with several seen positives counts by the share of them that has the highest score: each
    is as good as picked at random. Items without one are left out.

    Args:
        scores: Out-of-sample scores, `[N, L]`; only their order within an item counts.
        observed: Seen labels, `[N, L]`.

    >>> seen = LabelMatrix.from_dense(np.eye(4, dtype=int).repeat(25, axis=0))
    >>> labels_per_item(seen.dense(), seen).k  # every seen label is predicted: one label per item
    1.0
    """
    values = np.asarray(scores)
    if values.shape != observed.shape:
        raise InputError(f"scores have shape {values.shape}, labels {observed.shape}")
    counts = observed.per_item(1)
    rows = np.flatnonzero(counts)
    refuse_few(len(rows))
    per_item, right = counts[rows], np.empty(len(rows))
    for start in range(0, len(rows), BLOCK):  # tables of all items would take much memory
        own = rows[start : start + BLOCK]
        states = observed.dense(own)
        top = np.where(states == -1, -np.inf, values[own]).argmax(axis=1)
        right[start : start + BLOCK] = states[np.arange(len(own)), top] == 1
    right /= per_item
    positive = observed.values == 1
    share = 1 / counts[observed.row_of_entry()[positive]]
    classes = observed.indices[positive]
    by_class = np.bincount(classes, share, observed.n_classes) / len(rows)
    commonest = float(by_class.max())  # no model does worse
    a, error = max(float(right.mean()), commonest), NOISE * float(right.std()) / len(rows) ** 0.5
    skill = min(max((a / commonest - 1) / (SKILL - 1), 0.0), 1.0)
    fewest, most = float(per_item.mean()), float(observed.n_classes)

    def at(shares: tuple[float, float], accuracy: float) -> float:
        share = (1 - skill) * shares[0] + skill * shares[1]
        return min(max(1 + share * (1 / accuracy - 1), fewest), most)

    return LabelsPerItem(
        k=at(MIDDLE, a),
        low=at(LOWEST, min(a + error, 1.0)),
        high=at(HIGHEST, max(a - error, 0.5 / most)),
        items=len(rows),
    )


def refuse_few(items: int) -> None:
    """Refuses to estimate k from too few items with a seen positive."""
    if items < FEWEST:
        raise InputError(
            f"{items} items have a seen positive; to estimate how many labels an item has, at "
            f"least {FEWEST} are needed; count labels on a few items instead "
            "(--set expected_positives=1.5)"
        )


def from_single_positives(probabilities: npt.ArrayLike, observed: LabelMatrix) -> Priors:
    """Estimates k and class priors, assuming uniform picking among an item's labels.

    k is that of `labels_per_item`. The priors are the mean probabilities of the labels, calibrated
    on the seen labels for this k.

    Args:
        probabilities: Out-of-sample scores in [0, 1], `[N, L]`. They need not be calibrated; a
            monotone transformation gives much the same result.
        observed: Seen labels, `[N, L]`.
    """
    scores = np.asarray(probabilities, dtype=np.float64)
    if not np.isfinite(scores).all() or scores.min(initial=0) < 0 or scores.max(initial=1) > 1:
        raise InputError("scores must be probabilities from 0 to 1")
    estimate, states = labels_per_item(scores, observed), observed.dense()
    rows = (states == 1).any(axis=1)
    means = fit_to_picks(scores, states, estimate.k).given_seen(scores, states)
    seen_share = (states[rows] == 1).mean(axis=0)
    hidden = means[rows].mean(axis=0) - seen_share
    hidden *= (estimate.k - seen_share.sum()) / max(float(hidden.sum()), SMALLEST)
    return Priors(
        priors=np.clip(seen_share + hidden, seen_share, 1.0),
        seen_share=seen_share,
        k=estimate.k,
        low=estimate.low,
        high=estimate.high,
        items=estimate.items,
        probabilities=means.astype(np.float32),
    )


def from_features(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None = None, *, seed: int = 0
) -> Priors:
    """Estimates k and class priors, assuming uniform picking among an item's labels.

    Args:
        x: Features of the items, `[N, D]`, or tokens `[N, T, D]`, which are averaged.
        observed: Seen labels, `[N, L]`; items with a seen positive are used, at most 20,000.
        groups: The group of each item, `[N]`, where items belong together.
        seed: Seed of the sample of items if there are more.
    """
    return from_single_positives(*_scored(x, observed, groups, seed))


def k_from_features(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None = None, *, seed: int = 0
) -> LabelsPerItem:
    """The k of `from_features`, without class priors."""
    return labels_per_item(*_scored(x, observed, groups, seed))


def usable_rows(observed: LabelMatrix, seed: int = 0) -> npt.NDArray[np.int64]:
    """Rows with a seen positive, ascending, at most `ITEMS` of them."""
    rows = np.flatnonzero(observed.per_item(1) > 0)
    refuse_few(len(rows))
    if len(rows) > ITEMS:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:ITEMS])
    return rows


def _scored(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None, seed: int
) -> tuple[npt.NDArray[np.float64], LabelMatrix]:
    """Out-of-sample scores of the usable items, and their seen labels."""
    rows = usable_rows(observed, seed)
    seen = observed.take(rows)
    groups = None if groups is None else np.asarray(groups)[rows]
    return seen_label_scores(x[torch.from_numpy(rows)], seen, groups), seen


def seen_label_scores(
    x: Tensor, observed: LabelMatrix, groups: npt.ArrayLike | None = None
) -> npt.NDArray[np.float64]:
    """Leave-one-out probabilities that each class is the seen one, `[n, L]`; rows sum to 1.

    Args:
        x: Features, `[n, D]` or `[n, T, D]`.
        observed: Seen labels of the items, each of which has a positive, `[n, L]`.
        groups: The group of each item, `[n]`; an item is left out together with its group.
    """
    number = None if groups is None else torch.from_numpy(group_numbers(groups))
    x = (x.mean(dim=1) if x.ndim == 3 else x).float()
    with torch.no_grad():
        vectors = KernelMap(x.shape[1], n_landmarks(len(x))).fit(x)
        return ridge_scores(Ridge(vectors, groups=number), observed)


def ridge_scores(ridge: Ridge, observed: LabelMatrix) -> npt.NDArray[np.float64]:
    """The same from a regression whose vectors are known."""
    states = torch.from_numpy(observed.dense()).float()
    with torch.no_grad():
        solution, _ = seen_label_regression(ridge, states, FEW_PENALTIES)
        return np.asarray(pick_probabilities(solution.left_out.double(), states))
