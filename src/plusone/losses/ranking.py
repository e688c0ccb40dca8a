"""Pairwise ranking of seen positives above everything else.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, Appendix A (the unnumbered formula of L_PR).

Probabilities differ by at most 1, so max(0, 1 - p_i + p_j) is never cut off and the sum over the
pairs of a row is linear: it needs only the number of seen positives n and the sum S of their
probabilities. Memory is therefore `B x L`, not `B x L x L`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plusone.losses.closed_form import even_gradient, less, row_blocks, same_shape, working_dtype


class _PairwiseRanking(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Tensor) -> Tensor:
        dtype = working_dtype(z)
        loss, probabilities = torch.empty_like(z), torch.empty_like(z, dtype=dtype)
        ctx.save_for_backward(probabilities, y)
        for z_, y_, loss_, p_ in row_blocks(z, y, loss, probabilities):
            p, t = torch.sigmoid(z_.to(dtype), out=p_), y_.to(dtype).relu()
            n, s = t.sum(1, keepdim=True), (p * t).sum(1, keepdim=True)
            loss_.copy_(less(torch.addcmul(n - s, p, n), t))  # n (1 + p_j) - S
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        probabilities, y = ctx.saved_tensors
        dtype = probabilities.dtype
        factor, slope = even_gradient(grad), torch.empty_like(probabilities, dtype=grad.dtype)
        for p, y_, grad_, slope_ in row_blocks(probabilities, y, grad, slope):
            t = y_.to(dtype).relu()
            if factor is not None:  # every pair counts as much: n for a j, n - L for an i
                d = torch.sub(t.sum(1, keepdim=True), t, alpha=t.shape[1]).mul_(less(p, p))
                slope_.copy_(d if factor == 1 else d.mul_(factor))
                continue
            pairs = less(grad_.to(dtype), t)
            total = pairs.sum(1, keepdim=True)
            d = torch.addcmul(pairs.mul_(t.sum(1, keepdim=True)), t, total, value=-1)
            slope_.copy_(d.mul_(less(p, p)))
        return slope, None


def pairwise_ranking(z: Tensor, y: Tensor) -> Tensor:
    """`pr`: the sum over pairs of max(0, 1 - p_i + p_j), i a seen positive, j not (Cole App. A).

    The cost of a pair is entered at its second label j, so that a row's sum is the paper's loss of
    that item. A row without a seen positive has no pairs and costs nothing.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative counts as a j, just as an unobserved label.

    Returns:
        Losses `[B, L]`; zero at the seen positives.

    >>> pairwise_ranking(torch.zeros(1, 3), torch.tensor([[1, 0, -1]])).tolist()
    [[0.0, 1.0, 1.0]]
    """
    same_shape(z, y)
    loss: Tensor = _PairwiseRanking.apply(z, y)  # type: ignore[no-untyped-call]
    return loss
