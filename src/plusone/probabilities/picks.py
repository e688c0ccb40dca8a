"""How the one label that was seen came to be picked among all labels of an item.

Everything that computes with picks (curve, k and class priors, suggestions) asks a `PickModel`:
how likely a pick is, and what it says about the other labels. `UNIFORM` is the one there is. Given
the model's outputs for an item, labels are independent with probabilities p, and the set Y of its
labels is not empty. Each of them is picked with the same probability. Then, with U uniform in
(0, 1),

    P(seen = l) = p_l E[1 / |Y| : y_l = 1] = p_l E[ prod_{m != l} (1 - p_m U) ] / P(Y not empty),

because the integral of U^j over (0, 1) is 1 / (j + 1). Gauss-Legendre nodes give the expectation.
Probabilities below `EXPLICIT` enter the product by the first terms of
log(1 - p u) = -sum_j (p u)^j / j, so that the cost is that of a few passes over `[N, L]`.

A label that was seen as negative is not in Y: its p is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

EXPLICIT = 0.1
TERMS = 5
NODES = 12
CERTAIN = 40.0  # logit of a label that is known


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


class PickModel(Protocol):
    """How likely a pick is, given logits of the labels, and what it says about the other labels."""

    def log_likelihood(self, z: Tensor, picked: Picked) -> Tensor:
        """The logarithm of P(seen label) of each item, `[N]`, for logits float64 `[N, L]`."""

    def label_means(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | the item has at least one) before a label is seen, `[N, L]`."""

    def posterior(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | inputs, and which label was seen), `[N, L]`; 1 for the seen label itself."""


class UniformPicks:
    """Each label of an item is picked with the same probability."""

    def log_likelihood(self, z: Tensor, picked: Picked) -> Tensor:
        """The logarithm of P(seen label) of each item, `[N]`.

        Args:
            z: Logits of the labels, float64 `[N, L]`.
            picked: The seen labels.

        >>> z = torch.tensor([[40.0, 40.0, -40.0]], dtype=torch.float64)  # certainly the first two
        >>> round(UNIFORM.log_likelihood(z, Picked(torch.tensor([0]))).exp().item(), 6)
        0.5
        """
        p, own = _p(z, picked), _own(z, picked)
        u, weight = _nodes()
        log_rest = _log_products(p, u) - torch.log1p(-own[:, None] * u)
        integral = (log_rest.exp() * weight).sum(dim=1)
        log_own = logsigmoid(z.gather(1, picked.label[:, None])[:, 0])
        return log_own + integral.log() - _log_any(z, picked)

    def label_means(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | the item has at least one) before a label is seen, `[N, L]`."""
        return _p(z, picked) * torch.exp(-_log_any(z, picked))[:, None]

    def posterior(self, z: Tensor, picked: Picked) -> Tensor:
        """P(label | inputs, and which label was seen), `[N, L]`; 1 for the seen label itself.

        Seeing one label lowers the probability of every other one a little: with the other label
        in Y, the seen one would have been picked less often.

        >>> z = torch.zeros(1, 2, dtype=torch.float64)  # each label with probability 1 / 2
        >>> first = Picked(torch.tensor([0]))  # which is picked half the time if Y is {0, 1}
        >>> UNIFORM.posterior(z, first).numpy().round(3)
        array([[1.   , 0.333]])
        """
        p, own = _p(z, picked), _own(z, picked)
        u, weight = _nodes()
        rest = torch.exp(_log_products(p, u) - torch.log1p(-own[:, None] * u)) * weight
        total = torch.zeros_like(p)
        for node in range(len(u)):  # of a label: p (1 - u) prod over the others
            total += rest[:, node, None] * (p * (1 - u[node]) / (1 - p * u[node]))
        total /= rest.sum(dim=1, keepdim=True)
        return total.scatter_(1, picked.label[:, None], 1.0)


UNIFORM: PickModel = UniformPicks()


def given_seen(
    z: Tensor, states: npt.NDArray[np.int8], picks: PickModel = UNIFORM
) -> npt.NDArray[np.float64]:
    """P(label | inputs, and all seen labels of the item), `[N, L]`; seen labels are 1 or 0.

    Of several seen positives the first counts as picked and the others as known. An item without a
    seen positive keeps the probabilities from before a label is seen.

    Args:
        z: Logits of the labels, float64 `[N, L]`.
        states: 1 (seen positive), 0 (unobserved) or -1 (seen negative), `[N, L]`.
        picks: How labels are picked.
    """
    picked, positive = pick(states), torch.from_numpy(states == 1)
    others = positive.scatter(1, picked.label[:, None], False)
    after = picks.posterior(z.masked_fill(others, CERTAIN), picked)
    p = torch.where(positive.any(dim=1, keepdim=True), after, picks.label_means(z, picked))
    return np.where(states == 0, p.numpy(), states == 1)


def _log_any(z: Tensor, picked: Picked) -> Tensor:
    """The logarithm of P(an item has at least one label), `[N]`."""
    log_none = logsigmoid(-z)
    if picked.negative is not None:
        log_none = log_none.masked_fill(picked.negative, 0.0)
    return torch.log(-torch.expm1(log_none.sum(dim=1).clamp(max=-1e-12)))


def _p(z: Tensor, picked: Picked) -> Tensor:
    p = torch.sigmoid(z)
    return p if picked.negative is None else p.masked_fill(picked.negative, 0.0)


def _own(z: Tensor, picked: Picked) -> Tensor:
    return torch.sigmoid(z.gather(1, picked.label[:, None])[:, 0])


def _log_products(p: Tensor, u: Tensor) -> Tensor:
    """The logarithm of prod_l (1 - p_l u) at each node, `[N, NODES]`."""
    large = p.detach() > EXPLICIT
    rows, columns = large.nonzero(as_tuple=True)
    logs = torch.log1p(-p[rows, columns][:, None] * u)
    total = torch.zeros(len(p), len(u), dtype=p.dtype).index_add(0, rows, logs)
    small = p.masked_fill(large, 0.0)
    power = small
    for term in range(1, TERMS + 1):
        total = total - power.sum(dim=1, keepdim=True) * u**term / term
        power = power * small if term < TERMS else power
    return total


@cache
def _nodes() -> tuple[Tensor, Tensor]:
    places, weights = np.polynomial.legendre.leggauss(NODES)
    return torch.from_numpy((places + 1) / 2), torch.from_numpy(weights / 2)
