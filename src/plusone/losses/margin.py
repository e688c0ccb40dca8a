"""Hill loss: unobserved labels with a high probability are forgiven, positives get a margin.

Zhang et al. 2021, Simple and Robust Loss Design for Multi-Label Learning with Missing Labels,
https://arxiv.org/abs/2112.07368; the hill also as Eq. 24 and its gradient as Eq. 33 of Chen et al.
2024 (GR), https://arxiv.org/abs/2405.03501, which names the focal margin loss too (App. B).

Values and gradients of the authors' program were met to 1e-5. Labels y are 1 (seen positive), 0
(unobserved) and -1 (seen negative). In the code, v is the logit of being wrong (margin - z for a
positive, z otherwise), q = sigmoid(v), and r is q with 1 at the seen negatives.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from plusone.losses.closed_form import elementwise, flip, less, softplus
from plusone.losses.focal import power


def _hill(z: Tensor, y: Tensor, lam: float, margin: float, gamma: float) -> tuple[Tensor, Tensor]:
    t, seen = y.relu(), y.abs()
    v = flip(torch.sub(z, t, alpha=margin), t)
    cost, q = softplus(v), torch.sigmoid(v)
    # With u = 1 - r: unobserved q^2 (lam - q), slope q^2 u (2 (lam - q) - q);
    # positive q^gamma cost, slope q^gamma (q + gamma u cost); seen negative u = 0.
    r = torch.maximum(q, -y)
    weight, core, hidden = r * r, torch.lerp(torch.rsub(q, lam), cost, seen), less(q, seen)
    half = torch.sub(core, hidden, alpha=0.5)
    if gamma != 2:
        half.addcmul_(t, core, value=gamma / 2 - 1)
        weight = torch.lerp(weight, power(r, gamma), t)
    slope = torch.add(q - hidden, less(half, r), alpha=2).mul_(weight)
    return core.mul_(weight), flip(slope, t)


def hill(
    z: Tensor, y: Tensor, *, lam: float = 1.5, margin: float = 1.0, gamma: float = 2.0
) -> Tensor:
    """`hill`: unobserved labels cost (lam - p) p^2, which falls again near p = 1 (GR Eq. 24).

    A seen positive costs the focal margin loss (1 - p_m)^gamma * -log p_m with
    p_m = sigmoid(z - margin); `margin=0, gamma=0` is the Hill column of GR's Table 1.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative costs -log(1 - p), not the hill.
        lam: Height of the hill; 1.5 in the paper.
        margin: Margin of the seen positives; 1 in the paper.
        gamma: Focusing exponent of the seen positives; 2 in the paper.

    Returns:
        Losses `[B, L]`.

    >>> hill(torch.zeros(1, 1), torch.zeros(1, 1)).item()
    0.25
    """
    if gamma < 0:
        raise ValueError(f"gamma must not be negative, got {gamma}")
    return elementwise(z, y, partial(_hill, lam=lam, margin=margin, gamma=gamma))
