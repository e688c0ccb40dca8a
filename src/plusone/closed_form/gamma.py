"""How narrow the kernel of a kernel head should be, by the seen labels."""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.closed_form.kernel import GAMMA, KernelMap
from plusone.closed_form.ridge import Ridge, seen_label_regression
from plusone.metrics.seen_labels import log_rank

GAMMAS = (0.75, GAMMA, 3.0)
MARGIN = 1.003  # times better than the middle one, or the middle one is taken
SAMPLED = 1500  # items that are enough to tell
FEWEST = 20


def best_gamma(x: Tensor, observed: Tensor, groups: Tensor | None = None) -> float:
    """The one of `GAMMAS` with which ridge regression ranks seen labels best, leaving items out.

    Args:
        x: Features of some items `[n, D]`.
        observed: Their labels, float `[n, L]` in {1, 0, -1}.
        groups: Number of each item's group, int64 `[n]`; items are left out by groups.
    """
    rows = (observed == 1).any(1)
    x, observed = x[rows], observed[rows]
    groups = None if groups is None else groups[rows.cpu()]
    if len(x) < FEWEST:
        return GAMMA
    scores = {}
    with torch.no_grad():
        for gamma in GAMMAS:
            vectors = KernelMap(x.shape[1], len(x), gamma).to(x.device).fit(x)
            ridge = Ridge(vectors, groups=groups)
            solution, _ = seen_label_regression(ridge, observed)
            scores[gamma] = log_rank(solution.left_out.cpu(), observed.cpu())
    best = max(scores, key=lambda gamma: scores[gamma])
    return best if scores[best] > MARGIN * scores[GAMMA] else GAMMA
