"""The GR loss, and the framework of soft pseudo-labels and weights that it belongs to.

Chen et al. 2024, Boosting Single Positive Multi-label Classification with Generalized Robust Loss,
IJCAI, https://arxiv.org/abs/2405.03501, Eq. 4, 5, 7, 11, 14 (gradient Eq. 18) for GR; Eq. 15, 16,
Table 1 (= Table 4) and App. B for the framework. L_q is from Zhang and Sabuncu 2018, Generalized
Cross Entropy Loss, NeurIPS, https://arxiv.org/abs/1805.07836. In one formula, with s = 1 for a seen
positive and 0 for an unobserved label,

    v [ s L1 + (1 - s) (khat L2 + (1 - khat) L3) ]

where khat and v see a stopped p.

`generalized_pseudo_robust` adds pseudo-labels from hints: Tran et al. 2025, AEVLP, ICCV,
https://arxiv.org/abs/2508.20381, its GPR loss.

Deviations in the authors' program: the seen positive costs -log p (`variant="released"`), and 1e-7
is added inside the logarithm (not kept). Labels y are 1 (seen positive), 0 (unobserved) and -1
(seen negative, which the paper does not have: it costs -log(1 - p) with full weight). In every
column of Table 1 the weight of a seen label is 1, so v applies to unobserved labels only.

How Table 1 is read here:

- "undefined" entries have no influence and are 0.
- Hill's L3 and the focal margin loss are printed with the opposite sign; the signs here are those
  of Eq. 24 and 33, which make them costs.
- EM's L2 is the negative entropy with the gradient through all of it, as in Eq. 31. Its p-hat in
  L3 is the stopped present p (App. B), so that column's L3 has a value but no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.losses._logits import by_state, log_probabilities, on_logits
from plusone.losses.entropy import entropy
from plusone.losses.focusing import focal_cost
from plusone.losses.variant import Variant, is_released

Parameter = float | Tensor
Part = Callable[[Tensor], Tensor]


@on_logits
def generalized_cross_entropy(z: Tensor, *, q: float) -> Tensor:
    """L_q of a positive: (1 - p^q) / q, which is 1 - p at q = 1 and -log p at q = 0 (GR Eq. 14).

    Args:
        z: Logits of any shape; give -z for the cost of a negative.
        q: Robustness, 0 or more.

    Returns:
        Losses in the shape of z. No labels enter.

    >>> generalized_cross_entropy(torch.zeros(1), q=1.0).item()
    0.5
    """
    log_p, _ = log_probabilities(z)
    return _l_q(log_p, q)


def _l_q(log_p: Tensor, q: float) -> Tensor:
    """(1 - p^q) / q, and -log p for q = 0."""
    if q < 0:
        raise ValueError(f"q must not be negative, got {q}")
    return -log_p if q == 0 else -torch.expm1(q * log_p) / q


def false_negative_probability(p: Tensor, *, w: Parameter, b: Parameter) -> Tensor:
    """Estimate khat = sigmoid(w p + b): chance that an unobserved label is positive (GR Eq. 7).

    Args:
        p: Probabilities `[..., L]`; detach them, as the paper stops the gradient here.
        w: Slope, a number or a tensor that broadcasts to p (per class: `[L]`).
        b: Intercept, as w.

    Returns:
        Probabilities `[..., L]`.

    >>> false_negative_probability(torch.ones(1), w=2.0, b=-2.0).item()
    0.5
    """
    return torch.sigmoid(w * p + b)


def confidence_weight(p: Tensor, *, mu: Parameter, sigma: Parameter) -> Tensor:
    """Weight v = exp(-(p - mu)^2 / (2 sigma^2)) of an unobserved label (GR Eq. 11).

    Args:
        p: Probabilities `[..., L]`; detach them, as the paper stops the gradient here.
        mu: Probability with weight 1.
        sigma: Width.

    Returns:
        Weights `[..., L]` in (0, 1].

    >>> confidence_weight(torch.ones(1), mu=1.0, sigma=0.5).item()
    1.0
    """
    return torch.exp(-((p - mu) ** 2) / (2 * sigma**2))


@on_logits
def generalized_robust(
    z: Tensor,
    y: Tensor,
    *,
    w: Parameter,
    b: Parameter,
    mu: Parameter = 0.8,
    sigma: Parameter = 0.5,
    q1: float = 0.01,
    q2: float = 0.01,
    q3: float = 1.0,
    variant: Variant = "paper",
) -> Tensor:
    """`gr`: v [s L1 + (1 - s) (khat L2 + (1 - khat) L3)], khat and v on stopped p (GR Eq. 4, 5).

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative costs -log(1 - p) with v = 1: it is no
            guess, so the robust L3 is not used for it.
        w: Slope of khat; a number, or a tensor that broadcasts to z and receives gradients
            (`gr_learned`).
        b: Intercept of khat, as w.
        mu: Centre of v, as w.
        sigma: Width of v, as w.
        q1: Robustness for seen positives; 0.01 in the paper.
        q2: Robustness for unobserved labels as positives; 0.01 in the paper.
        q3: Robustness for unobserved labels as negatives; 1 (CUB 1.5) in the paper.
        variant: "released" charges seen positives -log p, whatever q1 says.

    Returns:
        Losses `[..., L]`.

    >>> generalized_robust(torch.zeros(1, 1), torch.zeros(1, 1), w=0.0, b=-90.0, mu=0.5).item()
    0.5
    """
    p = torch.sigmoid(z).detach()
    khat = false_negative_probability(p, w=w, b=b)  # Eq. 7
    v = confidence_weight(p, mu=mu, sigma=sigma)  # Eq. 11
    log_p, log_not_p = log_probabilities(z)
    l1 = _l_q(log_p, 0.0 if is_released(variant) else q1)  # Eq. 14
    l2 = _l_q(log_p, q2)
    l3 = _l_q(log_not_p, q3)
    return by_state(
        y,
        positive=l1,
        unobserved=v * (khat * l2 + (1 - khat) * l3),  # Eq. 5
        negative=-log_not_p,
    )


@on_logits
def generalized_pseudo_robust(
    z: Tensor,
    y: Tensor,
    pseudo: Tensor,
    *,
    w: Parameter,
    b: Parameter,
    mu: Parameter = 0.8,
    sigma: Parameter = 0.5,
    q1: float = 0.01,
    q2: float = 0.01,
    q3: float = 1.0,
    lam1: float = 0.7,
    lam2: float = 0.4,
    rho: float = 0.9,
    variant: Variant = "released",
) -> Tensor:
    """`gpr`: GR, except that unobserved labels with a pseudo-label follow it (AEVLP).

    A pseudo positive costs (1 - V') (rho -log p + (1 - rho) -log(1 - p)), where V' is GR's weight v
    limited to [1 - lam1, 1 - lam2]; a pseudo negative costs v times -log(1 - p). Weights see a
    stopped p.

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`; seen labels cost as in `generalized_robust`.
        pseudo: Pseudo-labels `[..., L]` in {1, 0, -1}; ignored at seen labels. All 0 is GR.
        w: Slope of khat.
        b: Intercept of khat.
        mu: Centre of v.
        sigma: Width of v.
        q1: Robustness for seen positives ("paper" alone).
        q2: Robustness for unobserved labels as positives.
        q3: Robustness for unobserved labels as negatives.
        lam1: Largest weight of a pseudo positive.
        lam2: Smallest weight of a pseudo positive.
        rho: Target of a pseudo positive.
        variant: As in `generalized_robust`.

    Returns:
        Losses `[..., L]`.

    >>> zero, one = torch.zeros(1, 1), torch.ones(1, 1)
    >>> generalized_pseudo_robust(zero, zero, -one, w=0.0, b=-90.0, mu=0.5).item()
    0.6931471824645996
    """
    p = torch.sigmoid(z).detach()
    khat = false_negative_probability(p, w=w, b=b)
    v = confidence_weight(p, mu=mu, sigma=sigma)
    log_p, log_not_p = log_probabilities(z)
    unknown = v * (khat * _l_q(log_p, q2) + (1 - khat) * _l_q(log_not_p, q3))
    limited = v.clamp(1 - lam1, 1 - lam2)
    pseudo_positive = -(1 - limited) * (rho * log_p + (1 - rho) * log_not_p)
    guessed = torch.where(pseudo > 0, pseudo_positive, -v * log_not_p)
    return by_state(
        y,
        positive=_l_q(log_p, 0.0 if is_released(variant) else q1),
        unobserved=torch.where(pseudo == 0, unknown, guessed),
        negative=-log_not_p,
    )


@dataclass(frozen=True)
class UnifiedLoss:
    """A loss given by its five parts, each a function of the logits z, `[..., L]` to `[..., L]`.

    Calling it gives losses `[..., L]`, as every function of `plusone.losses` does, so
    `plusone.methods._pointwise.pointwise` makes a method of it. Write the parts with `logsigmoid`
    of z, not with the logarithm of a probability, which is infinite for large logits.

    Args:
        k_hat: Chance that an unobserved label is a positive; gets stopped logits.
        v: Weight of an unobserved label; gets stopped logits.
        l1: Cost of a seen positive.
        l2: Cost of an unobserved label as far as it is a positive.
        l3: Cost of an unobserved label as far as it is a negative.

    >>> an = UnifiedLoss(constant(0), constant(1), minus_log_p, minus_log_p, minus_log_not_p)
    >>> an(torch.zeros(1, 1), torch.zeros(1, 1)).item()
    0.6931471824645996
    """

    k_hat: Part
    v: Part
    l1: Part
    l2: Part
    l3: Part

    def __call__(self, z: Tensor, y: Tensor) -> Tensor:
        """Losses `[..., L]` of logits z and observed labels y, both `[..., L]`."""
        return _unified(z, y, loss=self)

    @classmethod
    def en(cls, tau: Parameter) -> UnifiedLoss:
        """EN: unobserved labels with p <= tau (a number, or one per class `[L]`) are negatives."""
        return cls(constant(0.0), _at_most(tau), minus_log_p, minus_log_p, minus_log_not_p)

    @classmethod
    def em(cls, alpha: float = 0.1, *, beta: float = 0.0, tau: float | None = None) -> UnifiedLoss:
        """EM, and with a threshold tau EM + APL.

        Args:
            alpha: Weight of the entropy.
            beta: Weight of the negative pseudo-labels.
            tau: Unobserved labels with p <= tau are negative pseudo-labels; None is EM alone.
        """

        def minus_entropy(z: Tensor) -> Tensor:
            return -entropy(z)

        if tau is None:
            return cls(constant(1.0), constant(alpha), minus_log_p, minus_entropy, constant(0.0))
        low = _at_most(tau)

        def to_stopped_p(z: Tensor) -> Tensor:
            p_hat = torch.sigmoid(z).detach()
            return p_hat * minus_log_p(z) + (1 - p_hat) * minus_log_not_p(z)

        return cls(
            lambda z: 1 - low(z),
            lambda z: beta * low(z) + alpha * (1 - low(z)),
            minus_log_p,
            minus_entropy,
            to_stopped_p,
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
            variant: "paper" is Table 1: unobserved positives have the margin too, negatives pay
                the hill. "released" is the method `splc`: unobserved positives have no margin,
                negatives pay the focal loss.
        """
        low = _at_most(tau)

        def with_margin(z: Tensor) -> Tensor:
            return _focal(z - margin, gamma)

        l2: Part = with_margin
        l3 = _hill(lam)
        if is_released(variant):
            l2, l3 = (lambda z: _focal(z, gamma)), (lambda z: _focal(-z, gamma))
        return cls(lambda z: 1 - low(z), constant(1.0), with_margin, l2, l3)

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


@on_logits
def _unified(z: Tensor, y: Tensor, *, loss: UnifiedLoss) -> Tensor:
    khat, v = loss.k_hat(z.detach()), loss.v(z.detach())
    return by_state(
        y,
        positive=loss.l1(z),
        unobserved=v * (khat * loss.l2(z) + (1 - khat) * loss.l3(z)),
        negative=minus_log_not_p(z),
    )


def constant(value: float) -> Part:
    """The part that is the same number everywhere.

    >>> constant(0.5)(torch.zeros(2)).tolist()
    [0.5, 0.5]
    """
    return lambda z: torch.full_like(z, value)


def minus_log_p(z: Tensor) -> Tensor:
    """-log p, the cost of a positive.

    >>> minus_log_p(torch.zeros(1)).item()
    0.6931471824645996
    """
    return -log_probabilities(z)[0]


def minus_log_not_p(z: Tensor) -> Tensor:
    """-log(1 - p), the cost of a negative.

    >>> minus_log_not_p(torch.zeros(1)).item()
    0.6931471824645996
    """
    return -log_probabilities(z)[1]


def _at_most(tau: Parameter) -> Part:
    """1 where p <= tau, else 0."""
    return lambda z: (torch.sigmoid(z) <= tau).to(z.dtype)


def _focal(z: Tensor, gamma: float) -> Tensor:
    """(1 - p)^gamma * -log p."""
    return focal_cost(*log_probabilities(z), gamma)


def _hill(lam: float) -> Part:
    """(lam - p) p^2."""
    return lambda z: (lam - torch.sigmoid(z)) * torch.sigmoid(z) ** 2
