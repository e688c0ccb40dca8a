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

What an anchor has in common with its own class is its product with the sum of that class, so only
the denominators compare all with all. They are computed for as many anchors at a time as fit into
one block, and for anchors that cost something; the gradient is complete when the value is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plusone.losses.closed_form import working_dtype
from plusone.losses.variant import Variant, is_released

BLOCK = 1 << 21  # similarities computed at once


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
    others, classes_ = embeddings.detach(), classes
    if queue is not None and queue_classes is not None:
        others = torch.cat((others, queue.detach().to(others.dtype)))
        classes_ = torch.cat((classes, queue_classes))
    size = total if total is not None else len(embeddings)
    value: Tensor = _Contrast.apply(  # type: ignore[no-untyped-call]
        embeddings, others.to(working_dtype(others)), classes_, temperature, size, released
    )
    return value


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        embeddings: Tensor,
        others: Tensor,
        classes: Tensor,
        temperature: float,
        total: int,
        released: bool,
    ) -> Tensor:
        n = len(embeddings)
        _, kind, sizes = torch.unique(classes, return_inverse=True, return_counts=True)
        n_same = sizes[kind]  # itself included
        n_against = len(others) - (torch.ones_like(n_same) if released else n_same)
        anchors = ((n_same > 1) & (n_against > 0)).nonzero().squeeze(1)
        if not released:
            anchors = anchors[anchors < n]
        n_positives = (n_same[anchors] - 1).to(others.dtype)
        # Share of an anchor's positive, and of its denominator, in the cost.
        if released:
            share = 1 / (n_positives * max(len(anchors), 1))
        else:
            share = torch.full_like(n_positives, 1 / max(total, 1))
        share, below = share / temperature, share * n_positives
        chosen, kinds = others[anchors], kind[anchors]
        pulls = others.new_zeros(len(sizes), others.shape[1]).index_add_(0, kind, others)
        towards = pulls[kinds] - chosen  # an anchor's positives, added up
        value: Tensor = -(share * (chosen * towards).sum(1)).sum()
        # An anchor is drawn to its positives, and these to the anchor.
        grad = others.new_zeros(others.shape).index_add_(0, anchors, towards * -share[:, None])
        weighted = chosen * share[:, None]
        pulls = pulls.zero_().index_add_(0, kinds, weighted)
        grad.sub_(pulls[kind]).index_add_(0, anchors, weighted)
        rows = max(1, BLOCK // max(len(others), 1))
        for start in range(0, len(anchors), rows):
            part = slice(start, start + rows)
            which, own = anchors[part], chosen[part]
            similar = (own / temperature) @ others.t()
            if released:
                similar.scatter_(1, which[:, None], -torch.inf)
            else:
                similar.masked_fill_(kinds[part, None] == kind, -torch.inf)
            denominator = similar.logsumexp(1, keepdim=True)
            value = value + (below[part] * denominator[:, 0]).sum()
            likely = similar.sub_(denominator).exp_().mul_(below[part, None] / temperature)
            grad.index_add_(0, which, likely @ others)
            grad[:n] += likely[:, :n].t() @ own
        ctx.save_for_backward(grad[:n].to(embeddings.dtype))
        return value.to(embeddings.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return grad * slope, None, None, None, None, None
