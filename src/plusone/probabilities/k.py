"""k and class priors from the seen positives alone.

If each of an item's labels Y is equally likely to be the seen one, no model predicts the seen label
more often than E[1 / |Y|], whatever it knows of the item: even one that knows all of Y has to guess
which of them was seen. So a model that is right about the seen label with probability a (out of
sample) shows that the harmonic mean of |Y| is at most 1 / a. The mean, k, is larger than the
harmonic mean where items differ, and smaller than 1 / a suggests where the model errs about Y.
How much of 1 / a - 1 is labels, and how much is error, cannot be told from seen labels: it may all
be error, so the range of k begins at what is seen. The shares below (`MIDDLE`, `HIGHEST`) come from
data sets whose labels are known (docs/evidence/promises.md). The more classes there are to confuse,
the more of it is error: with C effective classes (exp of the entropy of the seen classes), more
than `FEW_CLASSES`, the share of the estimate is multiplied by sqrt(`FEW_CLASSES` / C); not that of
the upper end, which only data sets with few classes could settle.

People do not pick at random: they name what is large, common or striking. Where first choices are
e times as readily named as the labels beside them (`plusone.probabilities.picks`), 1 / a - 1 counts
each hidden label as 1 / e, so k - 1 is e times as large (`LabelsPerItem.scaled`); at most 1.5
times, because a class that is hard to predict looks like one that is seldom named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.curve import FEWEST, fit_to_picks, sample_rows
from plusone.probabilities.log_odds import SMALLEST
from plusone.probabilities.picks import UNIFORM, PickModel, Salience, learn_salience
from plusone.probabilities.scores import Floats, Ints, Scores

MIDDLE = (0.5, 1.0)  # share of 1 / a - 1 that is labels: for a model without skill, and with it
HIGHEST = (2.0, 2.5)  # the same for the upper end of the range
NEAR_ONE = 0.5  # hidden labels per item, as estimated, of which class priors believe half
FEW_CLASSES = 16.0  # effective number of classes, as the sets with 6 to 30 classes have at most
SKILL = 1.8  # a model has skill if it is right this many times as often as the commonest class
CAUTION = 1000  # items for which the cautious estimate is halfway to the lower end
LEARNED = 20_000_000  # labels that saliences are learned from
NOISE = 1.64  # standard errors of a that the range allows for
RATIOS = (0.5, 1.5)  # of the salience of first choices to that of hidden labels, least and most

Source = Literal["given", "estimated", "counted"]


@dataclass(frozen=True)
class LabelsPerItem:
    """k, the mean number of labels per item.

    Args:
        k: The estimate.
        low: Lower end of its range: the number of labels that are seen, if it is estimated.
        high: Upper end.
        items: Number of items with a seen positive.
        source: Whether it is given, and has no range, estimated from seen labels, or counted on
            audited items.
        salience: How readily each class is named; None if picks are taken as random.
    """

    k: float
    low: float
    high: float
    items: int
    source: Source = "estimated"
    salience: Salience | None = None

    @classmethod
    def given(cls, k: float) -> LabelsPerItem:
        """A k that is known."""
        return cls(k, k, k, 0, "given")

    @property
    def picks(self) -> PickModel:
        """How labels are picked."""
        return UNIFORM if self.salience is None else PickModel(self.salience.values)

    def scaled(self, ratio: float) -> LabelsPerItem:
        """The estimate where first choices are `ratio` times as salient as hidden labels."""
        k, high = (1 + (value - 1) * ratio for value in (self.k, self.high))
        k = max(k, self.low)
        return replace(self, k=k, high=max(high, self.high))

    def to_tensors(self) -> dict[str, Tensor]:
        """The estimate as tensors, for a checkpoint."""
        numbers = [self.k, self.low, self.high, self.items, get_args(Source).index(self.source)]
        tensors = {"estimate": torch.tensor(numbers, dtype=torch.float64)}
        if self.salience is not None:
            nothing = float("nan")
            error = self.salience.error or [nothing] * len(self.salience.values)
            test = nothing if self.salience.p_value is None else self.salience.p_value
            rows = [self.salience.values, error, [test] * len(error)]
            tensors["salience"] = torch.tensor(rows, dtype=torch.float64)
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> LabelsPerItem | None:
        """What `to_tensors` gave, among others; None without it."""
        if "estimate" not in tensors:
            return None
        k, low, high, items, source = tensors["estimate"].tolist()
        salience = None
        if "salience" in tensors:
            values, error, test = tensors["salience"].tolist()
            known = not math.isnan(sum(error))
            salience = Salience(
                tuple(values),
                tuple(error) if known else None,
                None if math.isnan(test[0]) else test[0],
            )
        return cls(k, low, high, int(items), get_args(Source)[int(source)], salience)

    @property
    def cautious(self) -> float:
        """A low estimate, to accept labels that nobody checks: the lower, the fewer the items."""
        return self.low + (self.k - self.low) * self.items / (self.items + CAUTION)


@dataclass(frozen=True)
class Priors:
    """How many labels an item has, and how often each class applies.

    Args:
        priors: Share of the items each class applies to, `[L]`; near k = 1 they sum to less than k.
        seen_share: Share of the items with a seen positive that each class was seen on, `[L]`.
        k: Labels of an item on average.
        low: Lower end of a range of k.
        high: Upper end.
        items: Number of items with a seen positive.
        probabilities: Calibrated probability of every label of every item given its seen labels,
            float32 `[N, L]`: 1 for seen positives, 0 for seen negatives.
        salience: How readily each class is named; None if picks are taken as random.
    """

    priors: Floats
    seen_share: Floats
    k: float
    low: float
    high: float
    items: int
    probabilities: npt.NDArray[np.float32]
    salience: Salience | None = None

    @property
    def prior_low(self) -> Floats:
        """Priors if k were at the lower end, and no less than the seen share, `[L]`."""
        return np.maximum(self.priors * (self.low / self._total), self.seen_share)

    @property
    def prior_high(self) -> Floats:
        """Priors if k were at the upper end, `[L]`."""
        return np.minimum(self.priors * (self.high / self._total), 1.0)

    @property
    def _total(self) -> float:
        return max(float(self.priors.sum()), SMALLEST)

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
            "salience": None if self.salience is None else self.salience.to_dict(),
        }


def with_implied(
    estimate: LabelsPerItem, named: LabelMatrix, hierarchy: Hierarchy
) -> LabelsPerItem:
    """The number of labels per item with those that follow from the ones that were picked.

    With pi_a the share of items whose seen label lies below class a, and k labels that are as good
    as drawn from the seen ones, a class a is above one of them with probability 1 - (1 - pi_a)^k.

    Args:
        estimate: That of the most specific labels.
        named: Those that are seen, `[N, L]`.
        hierarchy: Which class lies below which.
    """
    positive = named.only_positives()
    above = hierarchy.closed(positive).per_class(1) - positive.per_class(1)
    share = above / max(int((named.per_item(1) > 0).sum()), 1)

    def of(k: float) -> float:
        return k + float((1 - (1 - share) ** k).sum())

    return replace(estimate, k=of(estimate.k), low=of(estimate.low), high=of(estimate.high))


def labels_per_item(
    scores: npt.ArrayLike | Scores, observed: LabelMatrix, hierarchy: Hierarchy | None = None
) -> LabelsPerItem:
    """Estimates k from how often the highest score of an item is that of a seen label.

    An item with several seen positives counts by the share of them that has the highest score: each
    is as good as picked at random. Items without one are left out, and so are classes that were
    never seen. Labels that follow from others were not picked (`with_implied`).

    Args:
        scores: Out-of-sample scores, `[N, L]`; only their order within an item counts.
        observed: Seen labels, `[N, L]`.
        hierarchy: Which class lies below which, if the labels follow one.

    >>> seen = LabelMatrix.from_dense(np.eye(4, dtype=int).repeat(25, axis=0))
    >>> labels_per_item(seen.dense(), seen).k  # every seen label is predicted: one label per item
    1.0
    """
    scores = Scores.of(scores)
    if scores.shape != observed.shape:
        raise InputError(f"scores have shape {scores.shape}, labels {observed.shape}")
    if hierarchy is not None:
        named = hierarchy.most_specific(observed)
        return with_implied(labels_per_item(scores, named), named, hierarchy)
    never = observed.per_class(1) == 0
    counts = observed.per_item(1)
    rows = np.flatnonzero(counts)
    refuse_few(len(rows))
    per_item = counts[rows]

    def first_is_seen(own: Ints) -> tuple[Floats]:
        states = observed.dense(own)
        top = np.where((states == -1) | never, -np.inf, scores.at(own)).argmax(axis=1)
        return ((states[np.arange(len(own)), top] == 1).astype(np.float64),)

    (right,) = scores.collect(first_is_seen, rows)
    right /= per_item
    positive = observed.values == 1
    share = 1 / counts[observed.row_of_entry()[positive]]
    classes = observed.indices[positive]
    by_class = np.bincount(classes, share, observed.n_classes) / len(rows)
    commonest = float(by_class.max())  # no model does worse
    a, error = max(float(right.mean()), commonest), NOISE * float(right.std()) / len(rows) ** 0.5
    skill = min(max((a / commonest - 1) / (SKILL - 1), 0.0), 1.0)
    fewest, most = float(per_item.mean()), float(observed.n_classes)

    def at(shares: tuple[float, float], accuracy: float, believed: float = 1.0) -> float:
        share = believed * ((1 - skill) * shares[0] + skill * shares[1])
        return min(max(1 + share * (1 / accuracy - 1), fewest), most)

    return LabelsPerItem(
        k=at(MIDDLE, a, min(FEW_CLASSES / effective_classes(by_class), 1.0) ** 0.5),
        low=fewest,
        high=at(HIGHEST, max(a - error, 0.5 / most)),
        items=len(rows),
    )


def effective_classes(shares: Floats) -> float:
    """The number of classes, equally frequent, that would be as diverse: exp of the entropy.

    Args:
        shares: How often each class is seen, `[L]`, 1 in sum.

    >>> round(effective_classes(np.array([0.5, 0.5, 0.0])), 6)
    2.0
    """
    return math.exp(-float(shares @ np.log(np.maximum(shares, SMALLEST))))


def refuse_few(items: int) -> None:
    """Refuses to estimate k from too few items with a seen positive."""
    if items < FEWEST:
        raise InputError(
            f"{items} items have a seen positive; to estimate how many labels an item has, at "
            f"least {FEWEST} are needed; count labels on a few items instead "
            "(--set expected_positives=1.5)"
        )


def from_single_positives(
    probabilities: npt.ArrayLike, observed: LabelMatrix, estimate: LabelsPerItem | None = None
) -> Priors:
    """Estimates k and class priors.

    The priors are the mean probabilities of the labels, calibrated on the seen labels for k. Near
    k = 1 most of what looks like hidden labels is error of the model, so priors fall back to the
    seen share: of an estimated number h of hidden labels per item, h^2 / (h^2 + `NEAR_ONE`^2) are
    believed (docs/priors.md). A k that is given or counted is believed.

    Args:
        probabilities: Out-of-sample scores in [0, 1], `[N, L]`. They need not be calibrated; a
            monotone transformation gives much the same result.
        observed: Seen labels, `[N, L]`.
        estimate: k and how labels are picked; by default that of `labels_per_item`, which takes
            picks as random.
    """
    scores = np.asarray(probabilities, dtype=np.float64)
    if not np.isfinite(scores).all() or scores.min(initial=0) < 0 or scores.max(initial=1) > 1:
        raise InputError("scores must be probabilities from 0 to 1")
    estimate = labels_per_item(scores, observed) if estimate is None else estimate
    states, picks = observed.dense(), estimate.picks
    rows = (states == 1).any(axis=1)
    curve = fit_to_picks(scores, observed, estimate.k, picks=picks)
    means = curve.given_seen(scores, states, picks)
    seen_share = (states[rows] == 1).mean(axis=0)
    hidden = means[rows].mean(axis=0) - seen_share
    more = estimate.k - float(seen_share.sum())
    believed = more**2 / (more**2 + NEAR_ONE**2) if estimate.source == "estimated" else 1.0
    hidden *= believed * more / max(float(hidden.sum()), SMALLEST)
    return Priors(
        priors=np.clip(seen_share + hidden, seen_share, 1.0),
        seen_share=seen_share,
        k=estimate.k,
        low=estimate.low,
        high=estimate.high,
        items=estimate.items,
        probabilities=means.astype(np.float32),
        salience=estimate.salience,
    )


def with_salience(
    estimate: LabelsPerItem, scores: npt.ArrayLike | Scores, observed: LabelMatrix
) -> LabelsPerItem:
    """The estimate with saliences that are learned from scores of a model.

    They are learned from some of the items where there are very many labels.

    Args:
        estimate: k, which takes picks as random.
        scores: Out-of-sample scores in [0, 1], `[N, L]`.
        observed: Seen labels, `[N, L]`.
    """
    scores = Scores.of(scores)
    curve = fit_to_picks(scores, observed, estimate.k)
    some = sample_rows(np.arange(len(observed)), observed.n_classes, most=LEARNED)
    values, states = scores.at(some), observed.dense(some)
    p, seen = torch.from_numpy(curve.given_seen(values, states)), torch.from_numpy(states)
    e = learn_salience(p, seen)
    if estimate.source == "estimated":
        ratio = salience_ratio(p, seen, e, torch.from_numpy(values).argmax(1))
        estimate = estimate.scaled(ratio)
    return replace(estimate, salience=Salience(tuple(e.tolist())))


def salience_ratio(recovered: Tensor, observed: Tensor, e: Tensor, top: Tensor) -> float:
    """Mean salience of first choices, over that of labels that are hidden beside them.

    Args:
        recovered: Probability of each label given what was seen, `[n, L]`.
        observed: Labels, `[n, L]`.
        e: Saliences, `[L]`.
        top: The class with the highest score of each item, `[n]`.
    """
    hidden = recovered.masked_fill(observed != 0, 0.0).scatter_(1, top[:, None], 0.0).sum(0)
    ratio = float(e[top].mean() * hidden.sum() / (hidden @ e).clamp(min=1e-12))
    return min(max(ratio, RATIOS[0]), RATIOS[1])
