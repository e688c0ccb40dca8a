"""Comparisons that are no pointwise cross-entropy: softmax, pairwise ranking, norms of weights.

Softmax cross-entropy on the seen label: no single-positive paper compares with it; one seen label
per item makes it the first thing to try. The score of a class is its softmax probability.

Pairwise ranking: Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, Appendix A (the unnumbered formula of L_PR).

Norms of weights for `l1r` and `l2r`: Zhou et al. 2022, Acknowledging the Unknown, ECCV,
https://arxiv.org/abs/2203.16219: `an` plus lambda times a norm of the classifier's weights. No
labels enter there, so seen negatives are the business of the loss that the penalty is added to.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from plusone.losses._logits import on_logits


@on_logits
def softmax_cross_entropy(z: Tensor, y: Tensor) -> Tensor:
    """`softmax`: -log softmax(z)_i at the seen positive i.

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative costs -log(1 - softmax(z)_j) and stays a
            rival of the seen positive; with several seen positives each has an equal share of the
            row; a row without any seen label costs nothing.

    Returns:
        Losses `[..., L]`, zero at unobserved labels. The sum of a row with one seen positive is
        the row's cross-entropy, so `reduce(..., "item")` is the usual mean over items.

    >>> softmax_cross_entropy(torch.zeros(1, 2), torch.tensor([[1, 0]]))[0, 0].item()
    0.6931471824645996
    """
    y = y.to(z.dtype)
    s = y.relu()
    log_p = torch.log_softmax(z, -1)
    chosen = -log_p * s / s.sum(-1, keepdim=True).clamp(min=1)
    return chosen - (-y).relu() * _log_of_the_rest(z, log_p)


def _log_of_the_rest(z: Tensor, log_p: Tensor) -> Tensor:
    """Log(1 - p) of p = softmax(z), finite for logits of any size.

    1 - p cancels only for the largest p of a row, where it is the sum of the others.
    """
    if z.shape[-1] == 1:
        return torch.zeros_like(z)  # no rival, so nothing to learn
    top = torch.zeros_like(z).scatter(-1, z.argmax(-1, keepdim=True), 1.0)
    others = torch.logsumexp(z - top * (torch.finfo(z.dtype).max / 4), -1, keepdim=True)
    of_top = others - torch.logsumexp(z, -1, keepdim=True)
    of_others = torch.log1p(-log_p.exp() * (1 - top))
    return top * of_top + (1 - top) * of_others


@on_logits
def pairwise_ranking(z: Tensor, y: Tensor) -> Tensor:
    """`pr`: the sum over pairs of max(0, 1 - p_i + p_j), i a seen positive, j not (Cole App. A).

    The cost of a pair is entered at its second label j, so that a row's sum is the paper's loss of
    that item. A row without a seen positive has no pairs and costs nothing.

    Probabilities differ by at most 1, so the maximum never cuts off, and the sum over the n seen
    positives i is n (1 + p_j) minus the sum of their p_i: no table of pairs is needed.

    Args:
        z: Logits `[..., L]`.
        y: Observed labels `[..., L]`. A seen negative counts as a j, just as an unobserved label.

    Returns:
        Losses `[..., L]`; zero at the seen positives.

    >>> pairwise_ranking(torch.zeros(1, 3), torch.tensor([[1, 0, -1]])).tolist()
    [[0.0, 1.0, 1.0]]
    """
    p, s = torch.sigmoid(z), y.to(z.dtype).relu()
    n, total = s.sum(-1, keepdim=True), (s * p).sum(-1, keepdim=True)
    return (1 - s) * (n * (1 + p) - total)


def l1_penalty(weights: Tensor | Iterable[Tensor]) -> Tensor:
    """Sum of the absolute values (L1R in the table of Zhou et al.).

    Args:
        weights: One tensor `[..., L, D]` (or `[D]`), or several; leading dimensions are
            independent runs.

    Returns:
        `[...]`, a scalar for one run.

    >>> l1_penalty(torch.tensor([3.0, -4.0])).item()
    7.0
    """
    return _total([weight.abs() for weight in _listed(weights)])


def squared_l2_penalty(weights: Tensor | Iterable[Tensor]) -> Tensor:
    """Sum of the squares (L2R in the table of Zhou et al.).

    Args:
        weights: One tensor `[..., L, D]` (or `[D]`), or several; leading dimensions are
            independent runs.

    Returns:
        `[...]`, a scalar for one run.

    >>> squared_l2_penalty(torch.tensor([3.0, -4.0])).item()
    25.0
    """
    return _total([weight**2 for weight in _listed(weights)])


def _listed(weights: Tensor | Iterable[Tensor]) -> list[Tensor]:
    listed = [weights] if isinstance(weights, Tensor) else list(weights)
    if not listed:
        raise ValueError("a penalty needs at least one weight tensor, got none")
    return listed


def _total(costs: list[Tensor]) -> Tensor:
    """Sums the last two dimensions of each tensor (the last of vectors), then the tensors."""
    return torch.stack([cost.sum(tuple(range(-min(cost.ndim, 2), 0))) for cost in costs]).sum(0)
