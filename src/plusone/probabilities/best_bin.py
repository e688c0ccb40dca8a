"""Class priors from the scores of one model: the best bin of Garg et al., as CRISP uses it.

Garg et al. 2021, Mixture Proportion Estimation and PU Learning: A Modern Approach, NeurIPS; Liu et
al. 2023, Can Class-Priors Help Single-Positive Multi-Label Learning?,
https://arxiv.org/abs/2309.13886, Algorithm 1, Eq. 2. Above a threshold z that only positives of a
class reach, the share q of all items is the prior times the share q_p of the positives. The
threshold with the lowest upper bound of q / q_p is taken.

Its assumption is that the seen positives of a class are a random sample of its positives. One
positive seen per item is not: an item with many labels enters with less weight. `from_features`
models that.

Deviation: an estimate lies between the share of items on which the class was seen and 1. With few
seen positives the bound takes the threshold that all of them reach, and the estimate is too high.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BLOCK = 16  # classes at once: tables of all would take much memory


def best_bin_priors(
    scores: Tensor, seen: Tensor, *, delta: float = 0.01, tau: float = 0.01
) -> Tensor:
    """The prior of each class, `[L]`; 0 for a class that was never seen.

    Args:
        scores: Scores of all items by one model, `[N, L]`; only their order within a class counts.
        seen: Which labels are seen positives, bool `[N, L]`.
        delta: 1 less the confidence of the bound.
        tau: How much larger than the bound's its penalty is.

    >>> scores = torch.arange(100.0)[:, None]
    >>> seen = torch.zeros(100, 1, dtype=torch.bool)
    >>> seen[60::4] = True  # a quarter of the 40 items with the highest scores
    >>> best_bin_priors(scores, seen).item()
    0.4000000059604645
    """
    blocks = zip(torch.split(scores, BLOCK, 1), torch.split(seen, BLOCK, 1), strict=True)
    return torch.cat([_of_block(*block, delta, tau) for block in blocks])


def _of_block(scores: Tensor, seen: Tensor, delta: float, tau: float) -> Tensor:
    n, positives = len(scores), seen.sum(0)
    order = scores.sort(dim=0, descending=True)
    above = torch.arange(1, n + 1, device=scores.device, dtype=torch.float32)[:, None]
    q = (above / n).expand_as(scores)
    q_p = seen.gather(0, order.indices).cumsum(0) / positives.clamp(min=1)
    c = math.sqrt(math.log(4 / delta) / 2) * (n**-0.5 + positives.clamp(min=1) ** -0.5)
    bound = torch.where(q_p > 0, (q + (1 + tau) * c) / q_p, torch.inf)
    tied = order.values[1:] == order.values[:-1]  # a threshold takes all items of equal scores
    bound[:-1] = torch.where(tied, torch.inf, bound[:-1])
    best = bound.argmin(dim=0, keepdim=True)
    prior = (q.gather(0, best) / q_p.gather(0, best))[0]
    return torch.where(positives > 0, prior.clamp(max=1.0), 0.0).maximum(positives / n)
