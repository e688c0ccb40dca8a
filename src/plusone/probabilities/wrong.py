"""Seen labels that are probably wrong, by how likely each pick is.

A seen label is either picked among the labels of its item (`plusone.probabilities.picks`), or, with
a rate eps, wrong: a class that the item does not have, drawn by how often each class is seen,

    P(seen = l) = (1 - eps) P(l is picked) + eps f_l (1 - p_l) / sum_m f_m (1 - p_m).

The curve from out-of-sample scores to p is the most likely one under this mixture, so that wrong
labels do not raise p where a model is sure of the contrary. The rate is the most probable one among
several, each with its own curve, with a log-normal prior that decides only where the scores cannot
tell. The probability that a label is wrong is the share of the second term.

What the scores cannot tell: a label that is right, but that the model does not recognise at all,
looks like a wrong one. The range of the rate therefore begins with the rate that is needed if the
curve takes in as many such labels as it can (the one that was fitted with nearly no wrong labels).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.errors import InputError
from plusone.probabilities.curve import FEWEST, Floats, States, fit_to_picks
from plusone.probabilities.log_odds import log_odds
from plusone.probabilities.picks import UNIFORM, Picked, PickModel, pick

RATES = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2)  # rates whose likelihood is computed
FINE = 400  # rates in between, by interpolation
DROP = 1.92  # of the log-likelihood at the ends of a 95 % range: half of 3.84 (chi-squared)
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
        """Probability that the seen label of each item is wrong, `[N]`."""
        log_wrong = self.log_wrong(z, picked) + math.log(self.rate)
        return torch.exp(log_wrong - self.log_likelihood(z, picked))


@dataclass(frozen=True)
class WrongLabels:
    """How probably each seen label is wrong.

    Args:
        row: The items with exactly one seen positive, int64 `[n]`.
        label: That label, int64 `[n]`.
        probability: Probability that it is wrong, `[n]`.
        instead: The most probable other labels of each item, int64 `[n, m]`.
        instead_probability: Their probabilities, `[n, m]`.
        rate: Most probable share of wrong labels.
        low: Lower end of its range.
        high: Upper end.
    """

    row: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    probability: Floats
    instead: npt.NDArray[np.int64]
    instead_probability: Floats
    rate: float
    low: float
    high: float

    def __len__(self) -> int:
        return len(self.row)

    @property
    def sentence(self) -> str:
        """How many labels are wrong, and how sure that is."""
        n = len(self)
        low, high = math.floor(n * self.low), math.ceil(n * self.high)
        return (
            f"About {self.probability.sum():.0f} of {n} seen labels ({low} to {high}) are wrong, "
            "or right and not recognised by the model, which looks the same. None is changed "
            "unless a person says so in plusone review."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        n = len(self)
        return {
            "labels": n,
            "expected": round(float(self.probability.sum()), 1),
            "range": [math.floor(n * self.low), math.ceil(n * self.high)],
            "sentence": self.sentence,
        }


def find_wrong(
    scores: npt.ArrayLike,
    observed: States,
    k: float,
    *,
    known: npt.NDArray[np.int64] | None = None,
    picks: PickModel = UNIFORM,
    seed: int = 0,
) -> WrongLabels:
    """How probably each seen label is wrong.

    Args:
        scores: Out-of-sample scores in `[0, 1]`, `[N, L]`.
        observed: Seen labels, `[N, L]`; items with exactly one seen positive are judged.
        k: Mean number of labels per item.
        known: Rows whose labels a person has checked; they are not judged.
        picks: How labels are picked that are right.
        seed: Seed of the subsample that large data is fitted on.
    """
    single = (observed == 1).sum(axis=1) == 1
    if known is not None:
        single[known] = False
    rows = np.flatnonzero(single)
    if len(rows) < FEWEST:
        raise InputError(
            f"{len(rows)} items have one seen positive; to find wrong ones takes {FEWEST}"
        )
    values, states = np.asarray(scores, dtype=np.float64)[rows], observed[rows]
    picked, x = pick(states), torch.from_numpy(log_odds(values))
    seen = np.bincount(picked.label.numpy(), minlength=states.shape[1]).astype(np.float64)
    frequency = torch.from_numpy(seen / seen.sum())

    def fitted(rate: float) -> Tensor:
        noisy = NoisyPicks(picks, rate, frequency)
        return fit_to_picks(values, states, k, picks=noisy, seed=seed)(x)

    def likelihood(z: Tensor, rate: float) -> float:
        return float(NoisyPicks(picks, rate, frequency).log_likelihood(z, picked).sum())

    with torch.no_grad():
        first = fitted(RATES[0])
        each = [likelihood(first if rate == RATES[0] else fitted(rate), rate) for rate in RATES]
        rate, _, high = _likely(each)
        _, low, _ = _likely([likelihood(first, rate) for rate in RATES])
        z = fitted(rate)
        noisy = NoisyPicks(picks, rate, frequency)
        probability = noisy.wrong(z, picked).numpy()
        others = noisy.label_means(z, picked).scatter(1, picked.label[:, None], 0.0)
        best = others.topk(min(ALTERNATIVES, others.shape[1]))
    return WrongLabels(
        rows,
        picked.label.numpy(),
        probability,
        best.indices.numpy(),
        best.values.numpy(),
        rate,
        min(low, rate),
        high,
    )


def _likely(likelihoods: list[float]) -> tuple[float, float, float]:
    """The most probable rate, and the ends of its 95 % range; an end below all rates is 0."""
    from scipy.interpolate import PchipInterpolator  # type: ignore[import-untyped, unused-ignore]

    logs = np.log(RATES)
    fine = np.linspace(logs[0], logs[-1], FINE)
    curve = PchipInterpolator(logs, likelihoods)(fine)
    inside = np.flatnonzero(curve >= curve.max() - DROP)
    low = 0.0 if inside[0] == 0 else float(np.exp(fine[inside[0]]))
    prior = -(((fine - math.log(USUAL)) / SPREAD) ** 2) / 2
    best = float(np.exp(fine[(curve + prior).argmax()]))
    return best, low, max(float(np.exp(fine[inside[-1]])), best)
