"""Seen labels in the order in which they are probably wrong, and at most how many are.

A seen label is either picked among the labels of its item (`plusone.probabilities.picks`), or, with
a rate eps, wrong: a class that the item does not have, drawn by how often each class is seen,

    P(seen = l) = (1 - eps) P(l is picked) + eps f_l (1 - p_l) / sum_m f_m (1 - p_m).

The curve from out-of-sample scores to p is the most likely one under this mixture, so that wrong
labels do not raise p where a model is sure of the contrary. The rate is the most probable one among
several, each with its own curve, with a log-normal prior that decides only where the scores cannot
tell. The upper end of its 95 % range is the most labels that are wrong.

The order is by the mean of two ranks: that of the share of the second term, and that of the score
of the seen label (self-confidence), the lowest first.

What the scores cannot tell: a label that is right, but that the model does not recognise at all,
looks like a wrong one. So the share of the second term is no probability of a wrong label, and none
is given: on clean labels it is as high as on wrong ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.curve import FEWEST, fit_to_picks, sample_rows
from plusone.probabilities.log_odds import log_odds
from plusone.probabilities.picks import UNIFORM, Picked, PickModel, pick
from plusone.probabilities.scores import Floats, Ints, Scores

RATES = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2)  # rates whose likelihood is computed
RATED = 50_000_000  # labels that likelihoods are computed on
FINE = 400  # rates in between, by interpolation
DROP = 1.92  # of the log-likelihood at the end of a 95 % range: half of 3.84 (chi-squared)
USUAL, SPREAD = 0.03, 1.0  # prior of the rate: its median, and the deviation of its logarithm
ALTERNATIVES = 3


@dataclass(frozen=True)
class NoisyPicks:
    """Picks of which some are wrong: a mixture with classes that an item does not have.

    Args:
        picks: How labels are picked that are right.
        rate: Share of seen labels that are wrong.
        frequency: How often each class is drawn as a wrong label, float64 `[L]`.
    """

    picks: PickModel
    rate: float
    frequency: Tensor

    def log_wrong(self, z: Tensor, picked: Picked) -> Tensor:
        """The logarithm of P(seen label) of each item if its label is wrong, `[N]`."""
        absent = self.frequency * (1 - self.label_means(z, picked))
        if picked.negative is not None:
            absent = absent.masked_fill(picked.negative, 0.0)
        own = absent.gather(1, picked.label[:, None])[:, 0]
        return torch.log(own.clamp(min=1e-300)) - torch.log(absent.sum(dim=1).clamp(min=1e-300))

    def log_likelihood(self, z: Tensor, picked: Picked) -> Tensor:
        """The logarithm of P(seen label) of each item, `[N]`, for logits float64 `[N, L]`."""
        right = self.picks.log_likelihood(z, picked) + math.log1p(-self.rate)
        return torch.logaddexp(right, self.log_wrong(z, picked) + math.log(self.rate))

    def label_means(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | the item has at least one) before a label is seen, `[N, L]`."""
        return self.picks.label_means(z, picked).clamp(max=1.0)

    def posterior(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | inputs, and which label was seen), `[N, L]`."""
        wrong = self.wrong(z, picked)[:, None]
        without = self.label_means(z, picked).scatter(1, picked.label[:, None], 0.0)
        return (1 - wrong) * self.picks.posterior(z, picked) + wrong * without

    def wrong(self, z: Tensor, picked: Picked) -> Tensor:
        """The share of the second term in P(seen label) of each item, `[N]`."""
        log_wrong = self.log_wrong(z, picked) + math.log(self.rate)
        return torch.exp(log_wrong - self.log_likelihood(z, picked))


@dataclass(frozen=True)
class WrongLabels:
    """Which seen labels are probably wrong.

    Args:
        row: The items with exactly one seen positive, int64 `[n]`.
        label: That label, int64 `[n]`.
        score: From 0 to 1, the higher the more probably it is wrong, `[n]`; not a probability.
        instead: The other labels of each item that fit best, int64 `[n, m]`.
        fit: From 0 to 1, how well they fit, `[n, m]`; not a probability.
        high: Upper limit of the share of wrong labels; None where the scores cannot tell.
    """

    row: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    score: Floats
    instead: npt.NDArray[np.int64]
    fit: Floats
    high: float | None

    def __len__(self) -> int:
        return len(self.row)

    @property
    def most(self) -> int | None:
        """Upper limit of the number of wrong labels; None where the scores cannot tell."""
        return None if self.high is None else math.ceil(len(self) * self.high)

    @property
    def sentence(self) -> str:
        """How many labels are wrong, as far as that is known."""
        known = (
            f"How many of {len(self)} seen labels are wrong, the scores cannot tell."
            if self.most is None
            else f"At most {self.most} of {len(self)} seen labels are wrong (95 %)."
        )
        return (
            f"{known} A right label that the model does not recognise looks the same as a wrong "
            "one, so no probability is given. None is changed unless a person says so in plusone "
            "review."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"labels": len(self), "at_most": self.most, "sentence": self.sentence}


def find_wrong(
    scores: npt.ArrayLike | Scores,
    observed: LabelMatrix,
    k: float,
    *,
    known: npt.NDArray[np.int64] | None = None,
    picks: PickModel = UNIFORM,
    seed: int = 0,
) -> WrongLabels:
    """Orders seen labels by how probably they are wrong.

    Args:
        scores: Out-of-sample scores in `[0, 1]`, `[N, L]`.
        observed: Seen labels, `[N, L]`; items with exactly one seen positive are judged.
        k: Mean number of labels per item.
        known: Rows whose labels a person has checked; they are not judged.
        picks: How labels are picked that are right.
        seed: Seed of the subsample that large data is fitted on.
    """
    scores, single = Scores.of(scores), observed.per_item(1) == 1
    if known is not None:
        single[known] = False
    rows = np.flatnonzero(single)
    if len(rows) < FEWEST:
        raise InputError(
            f"{len(rows)} items have one seen positive; to find wrong ones takes {FEWEST}"
        )
    seen = observed.take(rows).per_class(1).astype(np.float64)
    frequency = torch.from_numpy(seen / seen.sum())
    models = [NoisyPicks(picks, rate, frequency) for rate in RATES]
    curves = [
        fit_to_picks(scores, observed, k, picks=noisy, seed=seed, rows=rows) for noisy in models
    ]

    def block(own: Ints) -> tuple[Tensor, Picked, Floats]:
        values = scores.at(own)
        return torch.from_numpy(log_odds(values)), pick(observed.dense(own)), values

    def likelihoods(own: Ints) -> tuple[Floats]:
        x, picked, _ = block(own)
        each = [
            noisy.log_likelihood(curve(x), picked)
            for noisy, curve in zip(models, curves, strict=True)
        ]
        return (torch.stack(each, 1).numpy(),)

    with torch.no_grad():
        (found,) = scores.collect(likelihoods, sample_rows(rows, observed.n_classes, seed, RATED))
        rate, high = _likely(found.sum(axis=0).tolist())
        noisy = NoisyPicks(picks, rate, frequency)
        curve = fit_to_picks(scores, observed, k, picks=noisy, seed=seed, rows=rows)

        def judged(own: Ints) -> tuple[npt.NDArray[Any], ...]:
            x, picked, values = block(own)
            z, label = curve(x), picked.label.numpy()
            others = noisy.label_means(z, picked).scatter(1, picked.label[:, None], 0.0)
            best = others.topk(min(ALTERNATIVES, others.shape[1]))
            share, score = noisy.wrong(z, picked).numpy(), values[np.arange(len(own)), label]
            return label, share, score, best.indices.numpy(), best.values.numpy()

        label, share, own, instead, fit = scores.collect(judged, rows)
    return WrongLabels(rows, label, _in_order(share, own), instead, fit, high)


def _in_order(share: Floats, own: Floats) -> Floats:
    """The shares `[n]`, sorted so that the largest has the first place by both rankings."""
    from scipy.stats import rankdata  # type: ignore[import-untyped, unused-ignore]

    order = np.argsort(rankdata(share) + rankdata(-own), kind="stable")
    score = np.empty_like(share)
    score[order] = np.sort(share)
    return score


def _likely(likelihoods: list[float]) -> tuple[float, float | None]:
    """The most probable rate, and the upper end of its 95 % range; None if it is above all."""
    from scipy.interpolate import PchipInterpolator  # type: ignore[import-untyped, unused-ignore]

    logs = np.log(RATES)
    fine = np.linspace(logs[0], logs[-1], FINE)
    curve = PchipInterpolator(logs, likelihoods)(fine)
    last = np.flatnonzero(curve >= curve.max() - DROP)[-1]
    prior = -(((fine - math.log(USUAL)) / SPREAD) ** 2) / 2
    best = float(np.exp(fine[(curve + prior).argmax()]))
    return best, None if last == FINE - 1 else max(float(np.exp(fine[last])), best)
