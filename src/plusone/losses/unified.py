"""One formula for many losses: GR's framework of soft pseudo-labels and weights.

Chen et al. 2024, Boosting Single Positive Multi-label Classification with Generalized Robust Loss,
IJCAI, https://arxiv.org/abs/2405.03501, Eq. 4, 5, 15, 16, Table 1 (= Table 4) and App. B:

    v [ s L1 + (1 - s) (khat L2 + (1 - khat) L3) ]

khat and v see a stopped p. In every column of Table 1 the weight of a seen label is 1, so v is
asked about unobserved labels only. A seen negative, which the paper does not have, costs
-log(1 - p) with full weight.

How Table 1 is read here:

- "undefined" entries have no influence and are 0.
- Hill's L3 and the focal margin loss are printed with their signs turned; the signs here are those
  of Eq. 24 and 33, which make them costs.
- EM's L2 is the negative entropy with the gradient through all of it, as in Eq. 31. Its p-hat in
  L3 is the stopped present p (App. B), so that column's L3 has a value but no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.losses.binary import weighted_bce
from plusone.losses.closed_form import same_shape, softplus, working_dtype
from plusone.losses.robust import (
    Parameter,
    confidence_weight,
    false_negative_probability,
    generalized_cross_entropy,
)
from plusone.losses.variant import Variant, is_released

Part = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class UnifiedLoss:
    """A loss given by its five parts, each a function of the logits z, `[B, L]` to `[B, L]`.

    Calling it gives losses `[B, L]`, as every function of `plusone.losses` does, so
    `plusone.methods.pointwise.pointwise` makes a method of it. Write the parts with `softplus` or
    `logsigmoid` of z, not with the logarithm of a probability, which is infinite for large logits.

    Args:
        k_hat: Chance that an unobserved label is a positive; gets stopped logits.
        v: Weight of an unobserved label; gets stopped logits.
        l1: Cost of a seen positive.
        l2: Cost of an unobserved label as far as it is a positive.
        l3: Cost of an unobserved label as far as it is a negative.

    >>> assumed = UnifiedLoss(constant(0), constant(1), l1=minus_log_p, l2=minus_log_p, l3=softplus)
    >>> assumed(torch.zeros(1, 1), torch.zeros(1, 1)).item()  # this is `an`
    0.6931471824645996
    """

    k_hat: Part
    v: Part
    l1: Part
    l2: Part
    l3: Part

    def __call__(self, z: Tensor, y: Tensor) -> Tensor:
        """Losses `[B, L]` of logits z and observed labels y, both `[B, L]`."""
        same_shape(z, y)
        x = z.to(working_dtype(z))
        stopped = x.detach()
        unobserved = torch.lerp(self.l3(x), self.l2(x), self.k_hat(stopped))
        seen = torch.where(y > 0, self.l1(x), softplus(x))
        return torch.where(y == 0, self.v(stopped) * unobserved, seen).to(z.dtype)

    @classmethod
    def en(cls, tau: Parameter) -> UnifiedLoss:
        """EN: unobserved labels with p <= tau (a number, or one per class `[L]`) are negatives."""
        return cls(constant(0.0), _at_most(tau), minus_log_p, minus_log_p, softplus)

    @classmethod
    def em(cls, alpha: float = 0.1, *, beta: float = 0.0, tau: float | None = None) -> UnifiedLoss:
        """EM, and with a threshold tau EM + APL.

        Args:
            alpha: Weight of the entropy.
            beta: Weight of the negative pseudo-labels.
            tau: Unobserved labels with p <= tau are negative pseudo-labels; None is EM alone.
        """
        if tau is None:
            return cls(constant(1.0), constant(alpha), minus_log_p, _minus_entropy, constant(0.0))
        low = _at_most(tau)
        return cls(
            lambda z: 1 - low(z),
            lambda z: torch.lerp(torch.full_like(z, alpha), torch.full_like(z, beta), low(z)),
            minus_log_p,
            _minus_entropy,
            lambda z: weighted_bce(z, torch.sigmoid(z.detach())),
        )

    @classmethod
    def hill(cls, lam: float = 1.5) -> UnifiedLoss:
        """Hill without margin and focusing: `losses.hill` with margin 0 and gamma 0."""
        return cls(constant(0.0), constant(1.0), minus_log_p, constant(0.0), _hill(lam))

    @classmethod
    def splc(
        cls,
        tau: float = 0.6,
        *,
        margin: float = 1.0,
        gamma: float = 2.0,
        lam: float = 1.5,
        variant: Variant = "paper",
    ) -> UnifiedLoss:
        """SPLC: unobserved labels with p > tau are positives.

        Args:
            tau: The threshold.
            margin: Margin of the positives.
            gamma: Focusing exponent.
            lam: Height of the hill.
            variant: "paper" is Table 1: found positives have the margin too, negatives pay the
                hill. "released" is the method `splc`: found positives have no margin, negatives
                pay the focal loss.
        """
        low = _at_most(tau)
        seen = _focal(margin, gamma)
        if is_released(variant):
            found, negative = _focal(0.0, gamma), _focal_negative(gamma)
        else:
            found, negative = seen, _hill(lam)
        return cls(lambda z: 1 - low(z), constant(1.0), seen, found, negative)

    @classmethod
    def gr(
        cls,
        *,
        w: float,
        b: float,
        mu: float = 0.8,
        sigma: float = 0.5,
        q1: float = 0.01,
        q2: float = 0.01,
        q3: float = 1.0,
    ) -> UnifiedLoss:
        """GR; the arguments are those of `losses.generalized_robust`."""
        return cls(
            lambda z: false_negative_probability(torch.sigmoid(z), w=w, b=b),
            lambda z: confidence_weight(torch.sigmoid(z), mu=mu, sigma=sigma),
            lambda z: generalized_cross_entropy(z, q=q1),
            lambda z: generalized_cross_entropy(z, q=q2),
            lambda z: generalized_cross_entropy(-z, q=q3),
        )


def constant(value: float) -> Part:
    """The part that is the same number everywhere.

    >>> constant(0.5)(torch.zeros(2)).tolist()
    [0.5, 0.5]
    """
    return lambda z: torch.full_like(z, value)


def minus_log_p(z: Tensor) -> Tensor:
    """-log p, the cost of a positive; `softplus(z)` is -log(1 - p), that of a negative.

    >>> minus_log_p(torch.zeros(1)).item()
    0.6931471824645996
    """
    return softplus(-z)


def _at_most(tau: Parameter) -> Part:
    """1 where p <= tau, else 0."""
    return lambda z: (torch.sigmoid(z) <= tau).to(z.dtype)


def _minus_entropy(z: Tensor) -> Tensor:
    # The entropy is even in z; -|z| has no cancellation: H = softplus(u) - u sigmoid(u).
    u = -z.abs()
    return u * torch.sigmoid(u) - softplus(u)


def _hill(lam: float) -> Part:
    def cost(z: Tensor) -> Tensor:
        p = torch.sigmoid(z)
        return (lam - p) * p * p

    return cost


def _focal(margin: float, gamma: float) -> Part:
    """(1 - p_m)^gamma * -log p_m with p_m = sigmoid(z - margin)."""
    negative = _focal_negative(gamma)
    return lambda z: negative(margin - z)


def _focal_negative(gamma: float) -> Part:
    """p^gamma * -log(1 - p)."""

    def cost(z: Tensor) -> Tensor:
        negative = softplus(z)
        return torch.exp(gamma * (z - negative)) * negative

    return cost
