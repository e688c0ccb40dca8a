"""Losses that know how many positives an item has: EPR and ROLE.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, Section 5.3 (expected positive regularisation: Eq. 10 and the
formula of L_EPR above it) and Section 5.4 (ROLE, regularised online label estimation: Eq. 11 and
the formula of L_ROLE below it).

Deviation in the authors' program, kept as `variant="released"`: the seen labels' cost is divided
by L too, and lambda is 1. Their 1e-5 inside the logarithm is not kept. These losses look at a whole
batch: the last two dimensions are `[B, L]`, leading ones are independent runs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses._logits import log_probabilities, on_logits
from plusone.losses.negatives import observed_bce
from plusone.losses.reduction import Reduction, reduce
from plusone.losses.variant import Variant, is_released


def expected_positive_penalty(z: Tensor, k: float) -> Tensor:
    """((khat - k) / L)^2, khat being the batch mean of the row sums of p (Cole Eq. 10).

    Args:
        z: Logits `[..., B, L]`. No labels enter, so seen negatives change nothing.
        k: Expected number of positives of an item.

    Returns:
        `[...]`, a scalar for one run.

    >>> expected_positive_penalty(torch.zeros(4, 2), k=1.0).item()
    0.0
    """
    return _count_penalty(z, k=k)


@on_logits
def _count_penalty(z: Tensor, *, k: float) -> Tensor:
    khat = reduce(torch.sigmoid(z), "item")
    return ((khat - k) / z.shape[-1]) ** 2


@on_logits
def expected_positives(
    z: Tensor, y: Tensor, *, k: float, lam: float = 1.0, variant: Variant = "paper"
) -> dict[str, Tensor]:
    """`epr`: the cost of the seen labels plus lambda times the count's penalty (Cole Sec. 5.3).

    Args:
        z: Logits `[..., B, L]`.
        y: Observed labels `[..., B, L]`. A seen negative costs -log(1 - p) with full weight,
            inside the term "positives".
        k: Expected number of positives of an item; VOC 1.5, COCO 2.9, NUS 1.9, CUB 31.4.
        lam: Weight of the penalty; 1 in the authors' program.
        variant: "paper" sums the seen labels of an item and averages over items, "released"
            divides that by L too.

    Returns:
        Two terms `[...]` to be added: "positives" and "expected_positives".

    >>> sorted(expected_positives(torch.zeros(1, 2), torch.tensor([[1, 0]]), k=1.0))
    ['expected_positives', 'positives']
    """
    reduction: Reduction = "mean" if is_released(variant) else "item"
    return {
        "positives": reduce(observed_bce(z, y), reduction),
        "expected_positives": lam * expected_positive_penalty(z, k=k),
    }


@on_logits
def online_estimation(
    z: Tensor, phi: Tensor, y: Tensor, *, k: float, lam: float = 1.0, variant: Variant = "paper"
) -> dict[str, Tensor]:
    """`role`: half of [BCE(p against the stopped estimate) + EPR(p)], half with the two swapped.

    Args:
        z: Logits of the classifier `[..., B, L]`.
        phi: Logits of the label estimate `[..., B, L]`.
        y: Observed labels `[..., B, L]`; seen labels enter through the EPR part of both halves.
        k: Expected number of positives of an item.
        lam: Weight of the count's penalty.
        variant: How EPR weighs the seen labels, see `expected_positives`.

    Returns:
        Two terms `[...]` to be added: "classifier" and "estimate".

    >>> zero, y = torch.zeros(1, 2), torch.tensor([[1, 0]])
    >>> terms = online_estimation(zero, zero, y, k=1.0)
    >>> terms["classifier"].equal(terms["estimate"])
    True
    """

    def half(x: Tensor, other: Tensor) -> Tensor:
        target = torch.sigmoid(other).detach()
        log_p, log_not_p = log_probabilities(x)
        agreement = reduce(-target * log_p - (1 - target) * log_not_p)
        epr = expected_positives(x, y, k=k, lam=lam, variant=variant)
        return (agreement + epr["positives"] + epr["expected_positives"]) / 2

    return {"classifier": half(z, phi), "estimate": half(phi, z)}
