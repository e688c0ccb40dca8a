"""Binary cross-entropy on seen labels, and with every other label assumed negative.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, Sections 4 and 5 (Eq. 5-9) and Appendix A.

Deviation from the authors' program: it adds 1e-5 inside the logarithms; here the logarithms are
taken of exact sigmoids. Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative); a
seen negative costs -log(1 - p) with full weight, in the smoothed losses with its target smoothed
as far as that of a seen positive.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from plusone.losses.closed_form import elementwise, flip, less, softplus
from plusone.losses.picking import few_seen, with_seen
from plusone.losses.variant import Variant, is_released


def weighted_bce(z: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Cross-entropy against targets in [0, 1] of the working type, in the type of z (Cole Eq. 5).

    Args:
        z: Logits `[B, L]`.
        target: Targets `[B, L]`; seen negatives are 0 here.
        weight: Weights `[B, L]`, or none.

    Returns:
        Losses `[B, L]`.

    >>> weighted_bce(torch.zeros(1, 1), torch.ones(1, 1)).item()
    0.6931471824645996
    """
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        z.to(target.dtype), target, weight=weight, reduction="none"
    )
    return loss.to(z.dtype)


def soft_cost(z: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy against targets in [0, 1], and its derivative.

    >>> [x.item() for x in soft_cost(torch.tensor(0.0), torch.tensor(0.25))]
    [0.6931471824645996, 0.25]
    """
    return softplus(-z).add_(less(z, target)), torch.sigmoid(z).sub_(target)


def hard_cost(z: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy against targets 0 and 1, and its derivative; exact for small costs too.

    >>> [x.item() for x in hard_cost(torch.tensor(0.0), torch.tensor(1.0))]
    [0.6931471824645996, -0.5]
    """
    return softplus(flip(z, t)), torch.sigmoid(z).sub_(t)


def _smoothing(eps: float, variant: Variant) -> float:
    if not 0.0 <= eps < 1.0:
        raise ValueError(f"label smoothing must lie in [0, 1), got {eps}")
    return eps if is_released(variant) else eps / 2


def _seen(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    if few_seen(y):
        return with_seen(z, y, (torch.zeros_like(z), torch.zeros_like(z)), _right_or_wrong)
    return _right_or_wrong(z, y)


def _right_or_wrong(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    v = torch.mul(z, y).neg_()  # the logit of being wrong
    return softplus(v).mul_(y.abs()), torch.sigmoid(v).mul_(y).neg_()


def _seen_smoothed(z: Tensor, y: Tensor, e: float) -> tuple[Tensor, Tensor]:
    loss, slope = soft_cost(z, y.relu().mul_(1 - 2 * e).add_(e))
    seen = y.abs()
    return loss.mul_(seen), slope.mul_(seen)


def observed_bce(z: Tensor, y: Tensor, *, eps: float = 0.0, variant: Variant = "paper") -> Tensor:
    """Cross-entropy on the seen labels only: `bce`, `bce_ls`, `iun`, `iu` (Cole Eq. 5, 6, 7).

    Which of the four it is depends on what was observed: everything, one positive with every
    negative, or one of each.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative costs -log(1 - p) with full weight; an
            unobserved label costs nothing.
        eps: Label smoothing; 0.1 in the paper's BCE-LS.
        variant: "paper" moves eps / 2 of the target to the other class, "released" all of eps.

    Returns:
        Losses `[B, L]`.

    >>> observed_bce(torch.zeros(1, 2), torch.tensor([[1, 0]])).tolist()
    [[0.6931471824645996, 0.0]]
    """
    if e := _smoothing(eps, variant):
        return elementwise(z, y, partial(_seen_smoothed, e=e))
    return elementwise(z, y, _seen)


def _assumed(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return hard_cost(z, y.relu())


def assume_negative(z: Tensor, y: Tensor) -> Tensor:
    """`an`: every label that is not a seen positive counts as a negative (Cole Eq. 8).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. Seen negatives and unobserved labels cost the same.

    Returns:
        Losses `[B, L]`.

    >>> assume_negative(torch.zeros(1, 2), torch.tensor([[1, 0]])).sum().item() / 2
    0.6931471824645996
    """
    return elementwise(z, y, _assumed)


def _smoothed(z: Tensor, y: Tensor, e_p: float, e_n: float) -> tuple[Tensor, Tensor]:
    if e_p == e_n:
        return soft_cost(z, y.relu().mul_(1 - 2 * e_p).add_(e_p))
    # The parabola through 1 - e_p at y = 1, e_n at 0 and e_p at -1.
    return soft_cost(z, (y * (0.5 - e_n)).add_(0.5 - e_p).mul_(y).add_(e_n))


def assume_negative_smoothed(
    z: Tensor, y: Tensor, *, eps_p: float = 0.1, eps_n: float = 0.1, variant: Variant = "paper"
) -> Tensor:
    """`an` with smoothed targets: `an_ls` (Cole Eq. 9), `an_als` and `n_ls` (Appendix A).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative has the target e_p, as a seen positive has
            1 - e_p: with `eps_p=0` it costs exactly -log(1 - p).
        eps_p: Smoothing of the seen labels; 0.1 in AN-LS, 0 in N-LS.
        eps_n: Smoothing of the unobserved labels, whose target becomes e_n; 0.1 in both.
        variant: "paper" takes e = eps / 2, "released" e = eps.

    Returns:
        Losses `[B, L]`.

    >>> assume_negative_smoothed(torch.zeros(1, 1), torch.ones(1, 1)).item()
    0.6931471824645996
    """
    e_p, e_n = _smoothing(eps_p, variant), _smoothing(eps_n, variant)
    return elementwise(z, y, partial(_smoothed, e_p=e_p, e_n=e_n))
