"""LAC: embeddings of the same class attract each other, those of other classes repel.

Label-Aware global Consistency, Xie et al. 2022, Label-Aware Global Consistency for Multi-Label
Learning with Single Positive Labels, NeurIPS, Eq. 5-7.

The paper and its authors' program differ, see `variant`:

| | paper | released |
| --- | --- | --- |
| anchors | the batch | the batch and the queue |
| denominator | embeddings of other classes | every other embedding |
| positives of an anchor | summed | averaged |
| over anchors | sum / number of embeddings of the batch, used or not | mean |

The paper's queue widens the matrices to `B x (B + K)`: past embeddings are compared with, but are
no anchors. In both variants an embedding is no positive of itself, and an anchor that has no
positive, or nothing to be told apart from, costs nothing. No gradient reaches the queue.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses.variant import Variant, is_released


def label_aware_contrast(
    embeddings: Tensor,
    classes: Tensor,
    *,
    queue: Tensor | None = None,
    queue_classes: Tensor | None = None,
    temperature: float = 0.5,
    total: int | None = None,
    variant: Variant = "paper",
) -> Tensor:
    """Contrasts label-wise embeddings across the items of a batch and a queue of past ones.

    Args:
        embeddings: Unit vectors `[n, d]`, one per used (item, class, view).
        classes: Their classes, int64 `[n]`.
        queue: Past unit vectors `[K, d]`.
        queue_classes: Their classes `[K]`.
        temperature: tau.
        total: Embeddings of the batch, used or not (the paper's B); default `n`.
        variant: "paper" or "released".

    Returns:
        A scalar; zero, still connected to `embeddings`, if there is nothing to contrast.

    >>> z = torch.eye(2)[[0, 0, 1, 1]]
    >>> round(label_aware_contrast(z, torch.tensor([0, 0, 1, 1]), temperature=1.0).item(), 4)
    -0.3069
    """
    released = is_released(variant)
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    n = len(embeddings)
    others, other_classes = embeddings, classes
    if queue is not None and queue_classes is not None:
        others = torch.cat((embeddings, queue.detach()))
        other_classes = torch.cat((classes, queue_classes))
    n_anchors = len(others) if released else n
    similar = others[:n_anchors] @ others.t() / temperature
    same = other_classes[:n_anchors, None] == other_classes
    itself = torch.eye(n_anchors, len(others), dtype=torch.bool, device=same.device)
    positive = same & ~itself
    counted = ~itself if released else ~same
    denominator = similar.masked_fill(~counted, -torch.inf).logsumexp(1, keepdim=True)
    n_positives = positive.sum(1)
    usable = (n_positives > 0) & counted.any(1)
    # Anchors that cost nothing must not bring infinities into the gradient either.
    gain = torch.where(positive & usable[:, None], similar - denominator, 0.0).sum(1)
    if released:
        gain = gain / n_positives.clamp_min(1)
        return -gain.sum() / usable.sum().clamp_min(1)
    return -gain.sum() / max(total if total is not None else n, 1)
