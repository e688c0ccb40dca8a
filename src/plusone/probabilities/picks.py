"""How the one label that was seen came to be picked among all labels of an item.

Everything that computes with picks (label recovery, curve, k and class priors, suggestions) asks a
`PickModel`: how likely a pick is, and what it says about the other labels. Given the model's
outputs for an item, labels are independent with probabilities p, and the set Y of its labels is not
empty. Class c has a salience e_c, how readily people name it: a label of Y is picked with
probability e_c / sum of e over Y (Plackett-Luce). With all saliences equal, `UNIFORM`, each label
of an item is picked with the same probability. Since 1 / s is the integral of exp(-s t) over t > 0,

    P(seen = c) = p_c int e_c exp(-e_c t) prod_{m != c} (1 - p_m w_m(t)) dt / P(Y not empty),
    w_m(t) = 1 - exp(-e_m t).

With equal saliences u = w(t) turns it into an integral over (0, 1) of a polynomial, for which
Gauss-Legendre nodes serve; otherwise the trapezoidal rule in log t, which converges as fast.
Probabilities below `EXPLICIT` enter the product by the first terms of
log(1 - p w) = -sum_j (p w)^j / j, so that the cost is that of a few passes over `[N, L]`.

A label that was seen as negative is not in Y: its p is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

EXPLICIT = 0.1
TERMS = 5
NODES = 12  # of Gauss and Legendre
STEP = 0.6  # in log t
NEAR, FAR = 1e-3, 18.0  # e t at both ends, for the largest and the smallest e
CERTAIN = 40.0  # logit of a label that is known
PSEUDO = 0.5  # picks of each class that count as made at random
MM_STEPS = 20
ERRORS = 0.07  # spread of log e that errors of a model explain, on five data sets
FAINT = 1e-3  # least probability that a class is present
SURE = 0.05  # p values up to which picks are said not to be random
NOISE = 1.64  # standard errors on both sides of a salience
DRAWS = 199  # of picks at random, that those of audited items are compared with
DOUBT = (
    "the model may also recognise some classes more easily, and seen labels cannot tell which; an "
    "audit can"
)


@dataclass(frozen=True)
class Salience:
    """How readily each class is named where it is present.

    Args:
        values: Relative to the average class, `[L]`.
        error: Standard error of the logarithm of each, `[L]`; None where it was not estimated.
        p_value: Of the test against picks at random; None where it was not made.
        audited: Number of audited items whose picks were tested; None if the picks were compared
            with what a model recovers, whose errors can look like a bias.
    """

    values: tuple[float, ...]
    error: tuple[float, ...] | None = None
    p_value: float | None = None
    audited: int | None = None

    @property
    def found(self) -> bool:
        """Whether the picks are not random, by the test."""
        return self.p_value is not None and self.p_value <= SURE

    def interval(self, label: int) -> tuple[float, float]:
        """A 90 % interval of the salience of a class."""
        width = math.exp(NOISE * (0.0 if self.error is None else self.error[label]))
        return self.values[label] / width, self.values[label] * width

    def finding(self, classes: Sequence[str], most: int = 3) -> str:
        """What it says about the annotators, and about the labels that are missing."""
        items = "" if self.audited is None else f" on {self.audited} audited items"
        if self.p_value is None:
            return (
                "whether labels were picked at random cannot be told from them; an audit can tell"
            )
        if not self.found:
            test = f"p = {self.p_value:.2g}{items}"
            return f"no sign that some classes are named more readily than others ({test})"
        order = sorted(range(len(self.values)), key=lambda label: -self.values[label])

        def named(label: int) -> str:
            low, high = self.interval(label)
            return f"{classes[label]} {self.values[label]:.2g} x ({low:.2g} to {high:.2g})"

        most = min(most, len(order) // 2)
        what = "labels seem not to have" if self.audited is None else "labels have not"
        doubt = (
            DOUBT
            if self.audited is None
            else ("more of the labels that are missing are of the classes that are seldom named")
        )
        return (
            f"{what} been picked at random (p = {self.p_value:.2g}{items}): named when present, "
            f"beside the average class: {', '.join(map(named, order[:most]))}; least: "
            f"{', '.join(map(named, order[::-1][:most]))} (90 % intervals); {doubt}"
        )

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Salience:
        """What `to_dict` gave."""
        error = content["error"]
        errors = None if error is None else tuple(error)
        return cls(tuple(content["values"]), errors, content["p_value"], content.get("audited"))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        error = None if self.error is None else list(self.error)
        test = {"p_value": self.p_value, "audited": self.audited}
        return {"values": list(self.values), "error": error} | test


@dataclass(frozen=True)
class Picked:
    """The seen labels of items with one seen positive each.

    Args:
        label: The seen positive of each item, int64 `[N]`.
        negative: Labels that were seen as negative, bool `[N, L]`; None if there are none.
    """

    label: Tensor
    negative: Tensor | None = None

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, rows: Tensor) -> Picked:
        negative = self.negative
        return Picked(self.label[rows], None if negative is None else negative[rows])


def pick(states: npt.NDArray[np.int8], rng: np.random.Generator | None = None) -> Picked:
    """One seen positive per item of `[N, L]`, and the seen negatives.

    Args:
        states: 1 (seen positive), 0 (unobserved) or -1 (seen negative).
        rng: Draws one of several seen positives; without it the first is taken. Items without a
            seen positive get class 0.
    """
    positive, negative = states == 1, states == -1
    label = (positive if rng is None else positive * (rng.random(states.shape) + 1)).argmax(axis=1)
    return Picked(torch.from_numpy(label), torch.from_numpy(negative) if negative.any() else None)


class Picking(Protocol):
    """How likely a pick is, given logits of the labels, and what it says about the other labels."""

    def log_likelihood(self, z: Tensor, picked: Picked) -> Tensor:
        """The logarithm of P(seen label) of each item, `[N]`, for logits float64 `[N, L]`."""

    def label_means(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | the item has at least one) before a label is seen, `[N, L]`."""

    def posterior(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | inputs, and which label was seen), `[N, L]`."""


class PickModel:
    """How likely a pick is, given logits of the labels, and what it says about the other labels.

    Args:
        salience: How readily each class is named, positive, `[L]`; only ratios matter. None: all
            the same.
    """

    def __init__(self, salience: Sequence[float] | Tensor | None = None) -> None:
        self.salience: Tensor | None = None
        if salience is None:
            places, weights = np.polynomial.legendre.leggauss(NODES)
            self._w = torch.from_numpy((places + 1) / 2)[None]  # [1, nodes]: of every class
            self._log_own = torch.from_numpy(np.log(weights / 2))[None]
            return
        e = torch.as_tensor(salience, dtype=torch.float64)
        if e.ndim != 1 or not bool((e > 0).all()) or not bool(torch.isfinite(e).all()):
            raise ValueError("saliences must be positive numbers, one per class")
        self.salience = e
        first, last = math.log(NEAR / float(e.max())), math.log(FAR / float(e.min()))
        x = torch.linspace(first, last, math.ceil((last - first) / STEP) + 1, dtype=e.dtype)
        t, step = x.exp(), x[1] - x[0]
        weight = step * t
        weight[0] /= -torch.expm1(-step)  # with all nodes before it, a geometric series
        et = e[:, None] * t
        self._w = -torch.expm1(-et)
        self._log_own = e.log()[:, None] - et + weight.log()

    @property
    def uniform(self) -> bool:
        """Whether all labels of an item are picked with the same probability."""
        return self.salience is None

    def log_likelihood(self, z: Tensor, picked: Picked) -> Tensor:
        """The logarithm of P(seen label) of each item, `[N]`.

        Args:
            z: Logits of the labels, float64 `[N, L]`.
            picked: The seen labels.

        >>> z = torch.tensor([[40.0, 40.0, -40.0]], dtype=torch.float64)  # certainly the first two
        >>> first = Picked(torch.tensor([0]))
        >>> round(UNIFORM.log_likelihood(z, first).exp().item(), 6)
        0.5
        >>> round(PickModel([3.0, 1.0, 1.0]).log_likelihood(z, first).exp().item(), 6)
        0.75
        """
        log_own = logsigmoid(z.gather(1, picked.label[:, None])[:, 0])
        return log_own + self._log_rest(z, picked).logsumexp(dim=1) - _log_any(z, picked)

    def label_means(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | the item has at least one) before a label is seen, `[N, L]`."""
        return _p(z, picked) * torch.exp(-_log_any(z, picked))[:, None]

    def posterior(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | inputs, and which label was seen), `[N, L]`; 1 for the seen label itself.

        Seeing one label lowers the probability of every other one: with the other label in Y, the
        seen one would have been picked less often. It lowers it most for classes that are readily
        named.

        >>> z = torch.zeros(1, 2, dtype=torch.float64)  # each label with probability 1 / 2
        >>> first = Picked(torch.tensor([0]))  # which is picked half the time if Y is {0, 1}
        >>> UNIFORM.posterior(z, first).numpy().round(3)
        array([[1.   , 0.333]])
        >>> PickModel([3.0, 1.0]).posterior(z, first).numpy().round(3)  # 3 / 4 of the time
        array([[1.   , 0.429]])
        """
        p = _p(z, picked)
        rest = torch.softmax(self._log_rest(z, picked), dim=1)
        total = torch.zeros_like(p)
        for node in range(self._w.shape[1]):  # of a label: p (1 - w) prod over the others
            w = self._w[:, node]
            total += rest[:, node, None] * (p * (1 - w) / (1 - p * w).clamp(min=1e-300))
        return total.scatter_(1, picked.label[:, None], 1.0)

    def _log_rest(self, z: Tensor, picked: Picked) -> Tensor:
        """The logarithm of what each node adds to P(seen) / p of the seen label, `[N, nodes]`."""
        others = _p(z, picked).scatter(1, picked.label[:, None], 0.0)
        label = picked.label if self.salience is not None else torch.zeros_like(picked.label)
        return self._log_own[label] + _log_products(others, self._w)


UNIFORM = PickModel()


def given_seen(
    z: Tensor, states: npt.NDArray[np.int8], picks: Picking = UNIFORM
) -> npt.NDArray[np.float64]:
    """P(label | inputs, and all seen labels of the item), `[N, L]`; seen labels are 1 or 0.

    Of several seen positives the first counts as picked and the others as known. An item without a
    seen positive keeps the probabilities from before a label is seen.

    Args:
        z: Logits of the labels, float64 `[N, L]`.
        states: 1 (seen positive), 0 (unobserved) or -1 (seen negative), `[N, L]`; seen positives
            that were not named may be 2.
        picks: How labels are picked.
    """
    picked, named = pick(states), torch.from_numpy(states == 1)
    others = other_positives(states, picked)
    after = picks.posterior(z.masked_fill(others, CERTAIN), picked)
    p = torch.where(named.any(dim=1, keepdim=True), after, picks.label_means(z, picked))
    return np.where(states == 0, p.numpy(), states >= 1)


def other_positives(states: npt.NDArray[np.int8], picked: Picked) -> Tensor:
    """Seen positives that do not count as picked, bool `[N, L]`."""
    positive = torch.from_numpy(states >= 1)
    named = torch.from_numpy((states == 1).any(axis=1))[:, None]
    own = positive.gather(1, picked.label[:, None]) & ~named
    return positive.scatter(1, picked.label[:, None], own)


def learn_salience(p: Tensor, observed: Tensor, weights: Tensor | None = None) -> Tensor:
    """The saliences `[L]`, 1 on average, under which the seen labels are the most likely picks.

    Each item's classes are present with probability p, and the seen ones certainly. Given who is
    present, the likelihood of the picks is concave in log e; an MM iteration finds its maximum
    (Hunter 2004). `PSEUDO` picks of each class count as made at random, so that classes that hardly
    occur together with others stay at 1. An item with m seen positives counts as 1 / m pick of
    each; one with none, or without an unobserved label, tells nothing.

    Args:
        p: Probability that each class is present, `[n, L]`.
        observed: Labels, `[n, L]` in {1, 0, -1}; 2 for positives that were not named.
        weights: How much each item counts, `[n]`; all the same by default.
    """
    seen = (observed == 1).to(p.dtype)
    many = seen.sum(1)
    tells = (many > 0) & ((observed == 0) | (observed > 1)).any(1)
    share = torch.where(tells, 1 / many.clamp(min=1), 0.0)
    share = share if weights is None else share * weights.to(p.dtype)
    certain = (observed >= 1).to(p.dtype)
    present = torch.maximum(p.clamp(FAINT, 1), certain).masked_fill_(observed == -1, 0.0)
    named, items = share @ seen, share * many
    e = p.new_ones(p.shape[1])
    for _ in range(MM_STEPS):
        e = (named + PSEUDO) / ((items / (present @ e).clamp(min=1e-12)) @ present + PSEUDO)
        e = e / e.mean()
    return e


def random_picks_p_value(
    present: npt.NDArray[np.bool_], picked: npt.NDArray[np.bool_], seed: int = 0
) -> float | None:
    """Exact p value of picks among known labels, if each was picked at random; None without any.

    The score test of equal saliences: the sum over classes of (picks - expected picks)^2 over the
    variance of the picks, compared with `DRAWS` draws of as many picks from the same items.

    Args:
        present: Which labels the items have, `[n, L]`.
        picked: Which of them were picked, `[n, L]`.
        seed: Of the draws.

    >>> both = np.ones((30, 2), dtype=bool)
    >>> random_picks_p_value(both, both & [True, False])
    0.005
    """
    many, all_many = picked.sum(axis=1), present.sum(axis=1)
    rows = (many > 0) & (many < all_many)
    if not rows.any():
        return None
    labels, number = present[rows], many[rows, None]
    chance = labels * (number / all_many[rows, None])
    expected, variance = chance.sum(axis=0), (chance * (1 - chance)).sum(axis=0).clip(1e-12)

    def unlike(picks: npt.NDArray[np.bool_]) -> float:
        return float(((picks.sum(axis=0) - expected) ** 2 / variance).sum())

    rng, own = np.random.default_rng(seed), unlike(picked[rows])
    extreme = 0
    for _ in range(DRAWS):
        keys = np.where(labels, rng.random(labels.shape), 2.0)
        last = np.take_along_axis(np.sort(keys, axis=1), number - 1, axis=1)
        extreme += unlike(keys <= last) >= own - 1e-9
    return (1 + extreme) / (1 + DRAWS)


def shrunken_salience(e: Tensor, observed: Tensor, weights: Tensor | None = None) -> Tensor:
    """Saliences `[L]`, 1 on average, without the spread that errors of the model explain.

    A class that is hard to predict looks like one that is seldom named, so saliences differ even
    where picks are random. With s the spread of log e over the seen labels, log e is multiplied by
    1 - `ERRORS`^2 / s^2, or 0 if that is negative (James and Stein 1961).

    Args:
        e: What `learn_salience` gives, `[L]`.
        observed: Labels, `[n, L]`.
        weights: How much each item counts, `[n]`; all the same by default.

    >>> shrunken_salience(torch.tensor([1.05, 0.95]), torch.eye(2))
    tensor([1., 1.])
    """
    seen = (observed == 1).to(e.dtype)
    share = seen.sum(0) if weights is None else weights.to(e.dtype) @ seen
    share = share / share.sum().clamp(min=1e-12)
    logs = e.log() - share @ e.log()
    kept = (1 - ERRORS**2 / (share @ logs.square()).clamp(min=1e-12)).clamp(min=0)
    e = (kept * logs).exp()
    return e / e.mean()


def _log_any(z: Tensor, picked: Picked) -> Tensor:
    """The logarithm of P(an item has at least one label), `[N]`."""
    log_none = logsigmoid(-z)
    if picked.negative is not None:
        log_none = log_none.masked_fill(picked.negative, 0.0)
    return torch.log(-torch.expm1(log_none.sum(dim=1).clamp(max=-1e-12)))


def _p(z: Tensor, picked: Picked) -> Tensor:
    p = torch.sigmoid(z)
    return p if picked.negative is None else p.masked_fill(picked.negative, 0.0)


def _log_products(p: Tensor, w: Tensor) -> Tensor:
    """The logarithm of prod_l (1 - p_l w_l) at each node of w `[L or 1, nodes]`, `[N, nodes]`."""
    large = p.detach() > EXPLICIT
    rows, columns = large.nonzero(as_tuple=True)
    of_class = columns if len(w) > 1 else torch.zeros_like(columns)
    logs = torch.log1p(-p[rows, columns][:, None] * w[of_class])
    total = torch.zeros(len(p), w.shape[1], dtype=p.dtype).index_add(0, rows, logs)
    small = p.masked_fill(large, 0.0)
    power, w_power = small, w
    for term in range(1, TERMS + 1):
        sums = power.sum(dim=1, keepdim=True) * w_power if len(w) == 1 else power @ w_power
        total = total - sums / term
        if term < TERMS:
            power, w_power = power * small, w_power * w
    return total
