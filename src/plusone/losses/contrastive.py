"""LAC's two terms: consistency of confident predictions, and contrast of label-wise embeddings.

Xie et al. 2022, Label-Aware Global Consistency for Multi-Label Learning with Single Positive
Labels, NeurIPS, Eq. 4 (PLC, pseudo-label consistency) and Eq. 5-7 (LAC, label-aware contrast).

PLC: the strongly augmented view must agree with confident predictions on the weakly augmented one.
Labels y are 1 (seen positive), 0 (unobserved) and -1 (seen negative). The paper charges unobserved
labels only. The released program also trains the strong view on the seen positive and averages over
the selected labels; a seen negative is selected there too.

LAC: embeddings of the same class attract each other, those of other classes repel. The paper and
its authors' program differ, see `variant`:

| | paper | released |
| --- | --- | --- |
| anchors | the batch | the batch and the queue |
| denominator | embeddings of other classes | every other embedding |
| positives of an anchor | summed | averaged |
| over anchors | sum / number of embeddings of the batch, used or not | mean |

The paper's queue widens the matrices to `B x (B + K)`: past embeddings are compared with, but are
no anchors. In both variants an embedding is no positive of itself (with
`second` its other view is one, as Eq. 7 says of k = k'), and an anchor that has no
positive, or nothing to be contrasted with, costs nothing. No gradient reaches the queue.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from plusone.losses._logits import on_logits
from plusone.losses.negatives import assume_negative
from plusone.losses.variant import Variant, is_released

BLOCK = 1 << 24  # similarities that are kept for the backward pass; larger tables are recomputed


@on_logits
def pseudo_label_consistency(
    strong: Tensor, weak: Tensor, y: Tensor, *, delta: float = 0.6, variant: Variant = "paper"
) -> Tensor:
    """Cross-entropy of the strong view to the confident predictions on the weak one (Eq. 4).

    Args:
        strong: Logits of the strongly augmented view `[..., B, L]`.
        weak: Logits of the weakly augmented view `[..., B, L]`; no gradient reaches them.
        y: Observed labels `[..., B, L]`.
        delta: A prediction of at least delta is a pseudo positive, one of at most 1 - delta a
            pseudo negative, others are left out.
        variant: "paper" (unobserved labels, sum / B) or "released" (seen labels too, mean over
            the selected ones).

    Returns:
        `[...]`, a scalar for one run.

    >>> z = torch.tensor([[2.0, -2.0]])
    >>> round(pseudo_label_consistency(z, z, torch.zeros(1, 2)).item(), 4)
    0.2539
    """
    released = is_released(variant)
    if not 0.5 <= delta <= 1:
        raise ValueError(f"delta must lie between 0.5 and 1, got {delta}")
    # p >= delta from this logit on, p <= 1 - delta from minus it down; no prediction is 1.
    level = math.log(delta / (1 - delta)) if delta < 1 else math.inf
    confident = (y == 0) & (weak.detach().abs() >= level)
    positive = (y > 0) | (confident & (weak.detach() >= level))
    selected = confident | (y != 0) if released else confident
    cost = torch.where(selected, assume_negative(strong, positive), 0.0).sum((-2, -1))
    return cost / (selected.sum((-2, -1)).clamp(min=1) if released else y.shape[-2])


def label_aware_contrast(
    embeddings: Tensor,
    classes: Tensor,
    *,
    second: Tensor | None = None,
    queue: Tensor | None = None,
    queue_classes: Tensor | None = None,
    temperature: float = 0.5,
    total: int | None = None,
    variant: Variant = "paper",
) -> Tensor:
    """Contrasts label-wise embeddings across the items of a batch and a queue of past ones.

    Leading dimensions are independent runs. Runs with different numbers of embeddings, and queues
    that are not full yet, are padded: whatever has the class -1 is left out.

    Args:
        embeddings: Unit vectors `[..., n, d]`, one per used (item, class, view).
        classes: Their classes, int64 `[..., n]`.
        second: The same labels on another view `[..., n, d]`. Then an embedding is a positive of
            itself, with its second view in its place (k = k' in Eq. 7, read literally); "paper"
            alone.
        queue: Past unit vectors `[..., K, d]`.
        queue_classes: Their classes `[..., K]`.
        temperature: tau.
        total: Embeddings of the batch, used or not (the paper's B); default `n`.
        variant: "paper" or "released".

    Returns:
        `[...]`, a scalar for one run; zero, still connected to `embeddings`, if there is nothing to
        contrast.

    >>> z = torch.eye(2)[[0, 0, 1, 1]]
    >>> round(label_aware_contrast(z, torch.tensor([0, 0, 1, 1]), temperature=1.0).item(), 4)
    -0.3069
    """
    released = is_released(variant)
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if released and second is not None:
        raise ValueError("a second view as Eq. 7 has it belongs to the variant paper")
    z, kinds = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32)), classes
    if queue is not None and queue_classes is not None:
        z = torch.cat((z, queue.detach().to(z.dtype)), -2)
        kinds = torch.cat((kinds, queue_classes), -1)
    n_anchors = kinds.shape[-1] if released else classes.shape[-1]

    def contrast(z: Tensor, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Costs of some anchors `[..., rows]`, and which of them have something to contrast."""
        similar = z[..., start:end, :] @ z.transpose(-1, -2) / temperature  # [..., rows, n + K]
        kind, other = kinds[..., start:end, None], kinds[..., None, :]
        place = torch.arange(kinds.shape[-1], device=z.device)
        itself = place[start:end, None] == place
        positive = (kind == other) & ~itself & (other >= 0)
        against = (~itself if released else kind != other) & (other >= 0)
        n_positive = positive.sum(-1)
        pull = torch.where(positive, similar, 0.0).sum(-1)
        if second is not None:
            again = second[..., start:end, :].to(z.dtype)
            pull = pull + (z[..., start:end, :] * again).sum(-1) / temperature
            n_positive = n_positive + 1
        anchor = (kind[..., 0] >= 0) & (n_positive > 0) & against.any(-1)
        # A large number and not infinity: rows without a rival keep finite gradients.
        rivals = torch.where(against, similar, -torch.finfo(z.dtype).max / 4)
        cost = n_positive * rivals.logsumexp(-1) - pull
        if released:
            cost = cost / n_positive.clamp(min=1)
        return torch.where(anchor, cost, 0.0), anchor

    if n_anchors * kinds.numel() <= BLOCK:
        cost, anchor = contrast(z, 0, n_anchors)
    else:
        step = max(1, BLOCK // kinds.numel())
        parts = [
            checkpoint(contrast, z, start, min(start + step, n_anchors), use_reentrant=False)
            for start in range(0, n_anchors, step)
        ]
        cost, anchor = (torch.cat(each, -1) for each in zip(*parts, strict=True))
    if released:
        mean = cost.sum(-1) / anchor.sum(-1).clamp(min=1)
        return mean.to(embeddings.dtype)
    size = classes.shape[-1] if total is None else total
    return (cost.sum(-1) / max(size, 1)).to(embeddings.dtype)
