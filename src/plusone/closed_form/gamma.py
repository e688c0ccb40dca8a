"""Which kernel a kernel head should have: its kind and how narrow it is, by the seen labels."""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from plusone.closed_form.kernel import GAMMA, KernelMap, Kind
from plusone.closed_form.ridge import Ridge, seen_label_regression
from plusone.data.matrix import LabelMatrix
from plusone.metrics.seen_labels import log_rank

Auto = Literal["auto"]
KINDS: tuple[Kind, ...] = ("cosine", "rbf")
GAMMAS = (GAMMA, 0.75, 3.0)
MARGIN = 1.003  # times better than the first gamma, or the first is taken
SAMPLED = 1500  # items that are enough to tell
FEWEST = 20


class Kernel(NamedTuple):
    """A kernel.

    Args:
        kind: How features are prepared.
        gamma: How narrow it is.
    """

    kind: Kind
    gamma: float


def kernels_tried(kind: Kind | Auto = "auto", gamma: float | None = None) -> int:
    """How many kernels `best_kernel` tries, if kind or gamma are given."""
    kinds, gammas = len(KINDS) * (kind == "auto"), len(GAMMAS) * (gamma is None)
    return kinds + gammas - (kinds > 0 and gammas > 0)  # one of them is tried for both


def best_kernel(
    x: Tensor,
    observed: LabelMatrix,
    groups: Tensor | None = None,
    kind: Kind | Auto = "auto",
    gamma: float | None = None,
) -> Kernel:
    """The kernel with which ridge regression predicts the seen labels of left-out items best.

    The kind is the one of least squared error, with the default gamma. Then gamma is the one that
    ranks seen labels best.

    Args:
        x: Features of some items `[n, D]`.
        observed: Their labels, `[n, L]`.
        groups: Number of each item's group, int64 `[n]`; items are left out by groups.
        kind: The kind, if it is given.
        gamma: The narrowness, if it is given.
    """
    rows = torch.from_numpy(observed.per_item(1) > 0)
    x, observed = x[rows.to(x.device)], observed.take(rows.nonzero()[:, 0])
    groups = None if groups is None else groups[rows]
    first, chosen = GAMMA if gamma is None else gamma, KINDS[0] if kind == "auto" else kind

    @cache
    def left_out(kernel: Kernel) -> Tensor:
        vectors = KernelMap(x.shape[1], len(x), kernel.gamma, kernel.kind).to(x.device).fit(x)
        return seen_label_regression(Ridge(vectors, groups=groups), observed).left_out()

    states = torch.from_numpy(observed.dense())
    with torch.no_grad():
        if len(x) < FEWEST:
            return Kernel(chosen, first)
        if kind == "auto":
            targets = (states == 1).float()
            targets /= targets.sum(1, keepdim=True)
            tried = {each: left_out(Kernel(each, first)) for each in KINDS}
            chosen = min(KINDS, key=lambda each: float((tried[each] - targets).square().sum()))
        if gamma is None:
            kernels = [Kernel(chosen, each) for each in GAMMAS]
            scores = [log_rank(left_out(each), states) for each in kernels]
            best = max(range(len(kernels)), key=lambda number: scores[number])
            return kernels[best if scores[best] > MARGIN * scores[0] else 0]
    return Kernel(chosen, first)
