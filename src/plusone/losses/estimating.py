"""ROLE: a classifier and an estimate of the labels that teach each other.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, section 5.4 (Eq. 11 and the formula of L_ROLE below it).
"""

from __future__ import annotations

from torch import Tensor

from plusone.losses.counting import counted, counts
from plusone.losses.variant import Variant


def online_estimation(
    z: Tensor, phi: Tensor, y: Tensor, *, k: float, lam: float = 1.0, variant: Variant = "released"
) -> dict[str, Tensor]:
    """`role`: half of [BCE(p against the stopped estimate) + EPR(p)], half with the two swapped.

    Args:
        z: Logits of the classifier `[B, L]`.
        phi: Logits of the label estimate `[B, L]`.
        y: Observed labels `[B, L]`; seen labels enter through the EPR part of both halves.
        k: Expected number of positives of an item.
        lam: Weight of the count's penalty.
        variant: How EPR weighs the seen labels, see `expected_positives`.

    Returns:
        Two scalars to be added: "classifier" and "estimate".

    >>> import torch
    >>> zero, y = torch.zeros(1, 2), torch.tensor([[1, 0]])
    >>> terms = online_estimation(zero, zero, y, k=1.0)
    >>> terms["classifier"].equal(terms["estimate"])
    True
    """
    terms = {}
    for name, found in zip(("classifier", "estimate"), counts(y, z, phi), strict=True):
        count = counted(found, z.shape, k=k, lam=lam, variant=variant)
        terms[name] = (found.agreement + count["positives"] + count["expected_positives"]) / 2
    return terms
