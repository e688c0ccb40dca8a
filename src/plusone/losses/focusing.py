"""Losses that scale a label's cost by the prediction: focal, asymmetric, hill.

Lin et al. 2017, Focal Loss for Dense Object Detection, ICCV, https://arxiv.org/abs/1708.02002,
Eq. 4 (`focal`). Ridnik et al. 2021, Asymmetric Loss For Multi-Label Classification, ICCV,
https://arxiv.org/abs/2009.14119 (`asymmetric`: asymmetric focusing and probability shifting).
Zhang et al. 2021, Simple and Robust Loss Design for Multi-Label Learning with Missing Labels,
https://arxiv.org/abs/2112.07368 (`hill`; the hill also as Eq. 24 and its gradient as Eq. 33 of Chen
et al. 2024 (GR), https://arxiv.org/abs/2405.03501, which names the focal margin loss too, App. B).

Values and gradients of the authors' programs for the asymmetric and the hill loss are met to 1e-5
(tests/losses). Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative). A seen
negative costs -log(1 - p) with full weight: neither focused nor shifted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses._logits import by_state, log_probabilities, on_logits


def focal_cost(log_right: Tensor, log_wrong: Tensor, gamma: float) -> Tensor:
    """Focal cost wrong^gamma * -log right (Lin Eq. 4).

    Args:
        log_right: Log-probability of the right answer: log p for a positive, log(1 - p) for a
            negative.
        log_wrong: Log-probability of the wrong answer, the other one.
        gamma: Focusing exponent.

    Returns:
        Costs in the shape of the arguments.

    >>> focal_cost(*log_probabilities(torch.zeros(1)), 1.0).item()
    0.3465735912322998
    """
    return -log_right if gamma == 0 else torch.exp(gamma * log_wrong) * -log_right


@on_logits
def focal(z: Tensor, y: Tensor, *, gamma: float = 2.0) -> Tensor:
    """`focal` (FAN): assume negative, each label scaled by (wrong share)^gamma (Lin Eq. 4).

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative costs -log(1 - p), unscaled.
        gamma: Focusing exponent; 2 in the paper.

    Returns:
        Losses `[..., L]`.

    >>> focal(torch.zeros(1, 1), torch.ones(1, 1)).item()
    0.1732867956161499
    """
    return asymmetric(z, y, gamma_neg=gamma, gamma_pos=gamma)


@on_logits
def asymmetric(
    z: Tensor,
    y: Tensor,
    *,
    gamma_neg: float = 4.0,
    gamma_pos: float = 0.0,
    shift: float = 0.0,
) -> Tensor:
    """`asl` and `asl_ps`: p^gamma_neg scales the unobserved labels (Ridnik 2021).

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative costs -log(1 - p), unscaled and unshifted.
        gamma_neg: Exponent for unobserved labels; 4 in the ASL paper and in the SPML tables.
        gamma_pos: Exponent of 1 - p for seen positives; 0 in the SPML tables.
        shift: Probability shift m: unobserved labels use p_m = max(p - m, 0); 0.05 in `asl_ps`.

    Returns:
        Losses `[..., L]`.

    >>> asymmetric(torch.zeros(1, 1), torch.zeros(1, 1), gamma_neg=1.0).item()
    0.3465735912322998
    """
    if gamma_neg < 0 or gamma_pos < 0 or not 0.0 <= shift < 1.0:
        got = f"{gamma_neg}, {gamma_pos}, {shift}"
        raise ValueError(f"need gamma_neg, gamma_pos >= 0 and 0 <= shift < 1, got {got}")
    log_p, log_not_p = log_probabilities(z)
    if shift == 0:
        unobserved = focal_cost(log_not_p, log_p, gamma_neg)
    else:
        # The smallest number instead of 0: the slope of p_m^gamma stays finite for gamma < 1.
        p_m = (torch.sigmoid(z) - shift).clamp(min=torch.finfo(z.dtype).tiny)
        unobserved = p_m**gamma_neg * -torch.log1p(-p_m)
    return by_state(
        y,
        positive=focal_cost(log_p, log_not_p, gamma_pos),
        unobserved=unobserved,
        negative=-log_not_p,
    )


@on_logits
def hill(
    z: Tensor, y: Tensor, *, lam: float = 1.5, margin: float = 1.0, gamma: float = 2.0
) -> Tensor:
    """`hill`: unobserved labels cost (lam - p) p^2, which falls again near p = 1 (GR Eq. 24).

    A seen positive costs the focal margin loss (1 - p_m)^gamma * -log p_m with
    p_m = sigmoid(z - margin); `margin=0, gamma=0` is the Hill column of GR's Table 1.

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative costs -log(1 - p), not the hill.
        lam: Height of the hill; 1.5 in the paper.
        margin: Margin of the seen positives; 1 in the paper.
        gamma: Focusing exponent of the seen positives; 2 in the paper.

    Returns:
        Losses `[..., L]`.

    >>> hill(torch.zeros(1, 1), torch.zeros(1, 1)).item()
    0.25
    """
    if gamma < 0:
        raise ValueError(f"gamma must not be negative, got {gamma}")
    p = torch.sigmoid(z)
    return by_state(
        y,
        positive=focal_cost(*log_probabilities(z - margin), gamma),
        unobserved=(lam - p) * p**2,
        negative=-log_probabilities(z)[1],
    )
