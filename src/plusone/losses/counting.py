"""Expected positive regularisation: cost on seen labels, and a right number of positives.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, Section 5.3 (Eq. 10 and the formula of L_EPR above it).

Deviation in the authors' program, kept as `variant="released"`: the seen labels' cost is divided
by L too, and lambda is 1. Their 1e-5 inside the logarithm is not kept.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses.binary import observed_bce
from plusone.losses.closed_form import working_dtype
from plusone.losses.reduction import reduce
from plusone.losses.variant import Variant, is_released


def expected_positive_penalty(z: Tensor, k: float) -> Tensor:
    """((khat - k) / L)^2, khat being the batch mean of the row sums of p (Cole Eq. 10).

    Args:
        z: Logits `[B, L]`. No labels enter, so seen negatives change nothing.
        k: Expected number of positives of an item.

    Returns:
        A scalar.

    >>> expected_positive_penalty(torch.zeros(4, 2), k=1.0).item()
    0.0
    """
    # (khat - k) / L is the mean of p over the batch minus k / L.
    p = torch.sigmoid(z.to(working_dtype(z)))
    return (p.mean() - k / z.shape[1]).square().to(z.dtype)


def expected_positives(
    z: Tensor, y: Tensor, *, k: float, lam: float = 1.0, variant: Variant = "paper"
) -> dict[str, Tensor]:
    """`epr`: the cost of the seen labels plus lambda times the count's penalty (Cole Sec. 5.3).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative costs -log(1 - p) with full weight, inside the
            term "positives".
        k: Expected number of positives of an item; VOC 1.5, COCO 2.9, NUS 1.9, CUB 31.4.
        lam: Weight of the penalty; 1 in the authors' program.
        variant: "paper" sums the seen labels of an item and averages over items, "released"
            divides that by L too.

    Returns:
        Two scalars to be added: "positives" and "expected_positives".

    >>> sorted(expected_positives(torch.zeros(1, 2), torch.tensor([[1, 0]]), k=1.0))
    ['expected_positives', 'positives']
    """
    seen, penalty = observed_bce(z, y), expected_positive_penalty(z, k)
    return {
        "positives": reduce(seen, "mean" if is_released(variant) else "item"),
        "expected_positives": penalty if lam == 1 else lam * penalty,
    }
