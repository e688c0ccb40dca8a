"""Softmax cross-entropy on the seen label: the multi-class baseline.

No single-positive paper compares with it; one seen label per item makes it the first thing to
try. The score of a class is its softmax probability, softmax(z)_i.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses.closed_form import same_shape, working_dtype


def softmax_cross_entropy(z: Tensor, y: Tensor) -> Tensor:
    """`softmax`: -log softmax(z)_i at the seen positive i.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative is left out of the softmax, so its logit has
            no influence; with several seen positives each has an equal share of the row; a row
            without one costs nothing.

    Returns:
        Losses `[B, L]`, zero except at seen positives. The sum of a row is the row's
        cross-entropy, so `reduce(..., "item")` is the usual mean over items.

    >>> softmax_cross_entropy(torch.zeros(1, 2), torch.tensor([[1, 0]]))[0, 0].item()
    0.6931471824645996
    """
    same_shape(z, y)
    y = y.to(working_dtype(z))
    # A huge number and not -inf: a row of seen negatives only stays finite.
    huge = torch.finfo(y.dtype).max / 4
    left = torch.add(z, y.clamp(max=0), alpha=huge)
    share = y.relu()
    share.mul_(-1 / share.sum(1, keepdim=True).clamp_(min=1))
    return (torch.log_softmax(left, 1) * share).to(z.dtype)
