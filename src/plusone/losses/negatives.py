"""Binary cross-entropy on seen labels, and with unobserved labels assumed negative.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, Sections 4 and 5 (Eq. 5-9, and the two unnumbered formulas of
Section 5.1 for weak and sampled negatives) and Appendix A.

Deviation from the authors' program: it adds 1e-5 inside the logarithms; here they are exact.
Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative); a seen negative costs
-log(1 - p) with full weight, in the smoothed losses with its target smoothed as far as that of a
seen positive.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from plusone.losses._logits import by_state, log_probabilities, on_logits
from plusone.losses.variant import Variant, is_released


@on_logits
def observed_bce(z: Tensor, y: Tensor, *, eps: float = 0.0, variant: Variant = "paper") -> Tensor:
    """Cross-entropy on the seen labels only: `bce`, `bce_ls`, `iun`, `iu` (Cole Eq. 5, 6, 7).

    Which of the four it is depends on what was observed: everything, one positive with every
    negative, or one of each.

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative costs -log(1 - p) with full weight; an
            unobserved label costs nothing.
        eps: Label smoothing; 0.1 in the paper's BCE-LS.
        variant: "paper" moves eps / 2 of the target to the other class, "released" all of eps.

    Returns:
        Losses `[..., L]`.

    >>> observed_bce(torch.zeros(1, 2), torch.tensor([[1, 0]])).tolist()
    [[0.6931471824645996, 0.0]]
    """
    e = _smoothing(eps, variant)
    log_p, log_not_p = log_probabilities(z)
    return by_state(
        y,
        positive=-(1 - e) * log_p - e * log_not_p,
        unobserved=0.0,
        negative=-e * log_p - (1 - e) * log_not_p,
    )


@on_logits
def assume_negative(z: Tensor, y: Tensor) -> Tensor:
    """`an`: every label that is not a seen positive counts as a negative (Cole Eq. 8).

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. Seen negatives and unobserved labels cost the same.

    Returns:
        Losses `[..., L]`.

    >>> assume_negative(torch.zeros(1, 2), torch.tensor([[1, 0]])).sum().item() / 2
    0.6931471824645996
    """
    sign = 2 * y.to(z.dtype).relu() - 1  # 1 for a positive, -1 for all others
    return -logsigmoid(sign * z)


@on_logits
def assume_negative_smoothed(
    z: Tensor, y: Tensor, *, eps_p: float = 0.1, eps_n: float = 0.1, variant: Variant = "paper"
) -> Tensor:
    """`an` with smoothed targets: `an_ls` (Cole Eq. 9), `an_als` and `n_ls` (Appendix A).

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative has the target e_p, as a seen positive has
            1 - e_p: with `eps_p=0` it costs exactly -log(1 - p).
        eps_p: Smoothing of the seen labels; 0.1 in AN-LS, 0 in N-LS.
        eps_n: Smoothing of the unobserved labels, whose target becomes e_n; 0.1 in both.
        variant: "paper" takes e = eps / 2, "released" e = eps.

    Returns:
        Losses `[..., L]`.

    >>> assume_negative_smoothed(torch.zeros(1, 1), torch.ones(1, 1)).item()
    0.6931471824645996
    """
    e_p, e_n = _smoothing(eps_p, variant), _smoothing(eps_n, variant)
    log_p, log_not_p = log_probabilities(z)
    return by_state(
        y,
        positive=-(1 - e_p) * log_p - e_p * log_not_p,
        unobserved=-e_n * log_p - (1 - e_n) * log_not_p,
        negative=-e_p * log_p - (1 - e_p) * log_not_p,
    )


def _smoothing(eps: float, variant: Variant) -> float:
    """The share e of the target that moves to the other class."""
    if not 0.0 <= eps < 1.0:
        raise ValueError(f"label smoothing must lie in [0, 1), got {eps}")
    return eps if is_released(variant) else eps / 2


@on_logits
def weak_negative(z: Tensor, y: Tensor, *, gamma: float | None = None) -> Tensor:
    """`wan`: assumed negatives weigh gamma (Cole Section 5.1; called DW by Zhou et al. 2022).

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative weighs 1, not gamma.
        gamma: Weight in [0, 1] of an unobserved label; 1 / (L - 1) by default, so that together
            they weigh as much as the single positive.

    Returns:
        Losses `[..., L]`.

    >>> weak_negative(torch.zeros(1, 2), torch.tensor([[1, 0]]), gamma=0.0)[0, 1].item()
    0.0
    """
    if gamma is None:
        gamma = 1 / max(z.shape[-1] - 1, 1)
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma must lie in [0, 1], got {gamma}")
    seen = y.to(z.dtype).abs()
    return (seen + (1 - seen) * gamma) * assume_negative(z, y)


def sample_negative(y: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """Turns one unobserved label per row, drawn uniformly, into a negative (Cole Section 5.1).

    Args:
        y: Observed labels `[..., L]`; not changed. Seen labels are never drawn, and a row without
            an unobserved label gets none.
        generator: Source of randomness; the global one by default.

    Returns:
        Labels `[..., L]` in the type of y (int8 for types without a sign).

    >>> sample_negative(torch.tensor([[1, 0]])).tolist()
    [[1, -1]]
    """
    y = y if y.dtype.is_signed else y.to(torch.int8)
    # Drawn on the CPU: the same seed gives the same labels on every device.
    u = torch.rand(*y.shape[:-1], 1, generator=generator, dtype=torch.float64)
    u = u.float().to(y.device)
    unobserved = y == 0
    rank = unobserved.cumsum(-1)  # 1 at the first unobserved label of a row, 2 at the second
    drawn = (u * rank[..., -1:]).long().clamp(max=rank[..., -1:] - 1) + 1
    return torch.where(unobserved & (rank == drawn), -1, y)


def sampled_negative(z: Tensor, y: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """`wan_sampled`: one random unobserved label per row is a negative, the rest are ignored.

    With one seen positive per row its expectation is `weak_negative` (Cole Section 5.1).

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. Seen negatives cost -log(1 - p) besides the drawn one.
        generator: Source of randomness; the global one by default.

    Returns:
        Losses `[..., L]`; a new draw at every call.

    >>> sampled_negative(torch.zeros(1, 2), torch.tensor([[1, 0]]))[0, 1].item()
    0.6931471824645996
    """
    return observed_bce(z, sample_negative(y, generator=generator))
