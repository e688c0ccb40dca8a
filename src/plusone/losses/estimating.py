"""ROLE: a classifier and an estimate of the labels that teach each other.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, section 5.4 (Eq. 11 and the formula of L_ROLE below it).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from plusone.losses.counting import expected_positives
from plusone.losses.reduction import reduce
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
    for name, learner, teacher in (("classifier", z, phi), ("estimate", phi, z)):
        target = teacher.detach().sigmoid().to(learner.dtype)
        agreement = binary_cross_entropy_with_logits(learner, target, reduction="none")
        count = expected_positives(learner, y, k=k, lam=lam, variant=variant)
        terms[name] = (reduce(agreement) + count["positives"] + count["expected_positives"]) / 2
    return terms
