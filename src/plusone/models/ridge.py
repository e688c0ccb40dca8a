"""Ridge regression in closed form, with leave-one-out predictions for free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 8192  # items at once
MOST_LEVERAGE = 1 - 1e-4
PENALTIES = (
    0.02, 0.03, 0.045, 0.07, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0, 15.0, 25.0,
)  # fmt: skip
SMALLEST = 1e-4  # probability of a pick


@dataclass(frozen=True)
class Solution:
    """A linear model and its leave-one-out predictions.

    Args:
        weight: `[L, r]`.
        bias: `[L]`.
        left_out: What the model fitted without an item predicts for it, `[n, L]`.
        targets: The targets of its items `[n, L]`, where a method estimates them.
    """

    weight: Tensor
    bias: Tensor
    left_out: Tensor
    targets: Tensor | None = None


class Ridge:
    """Ridge regression of any targets on the same vectors.

    The prediction is `t + x' w` with t the mean target and w the minimiser of
    `sum_i s_i (t_i - t - x_i' w)^2 + penalty |w|^2`, s_i being the weight of item i. The columns
    of the vectors are centred and uncorrelated (`plusone.models.kernel.FeatureMap`), so w is a
    product and a division. Leaving item i out changes its residual e_i to `e_i / (1 - h_i)`, with
    h_i its leverage.

    Args:
        vectors: `[n, r]`, with centred, uncorrelated columns.
        weights: How much each item counts, `[n]`, 1 on average; all the same by default.
    """

    def __init__(self, vectors: Tensor, weights: Tensor | None = None) -> None:
        self.vectors = vectors
        self.weights = vectors.new_ones(len(vectors)) if weights is None else weights
        self.sizes = vectors.new_zeros(vectors.shape[1])
        for rows, own in zip(
            torch.split(vectors, BLOCK), torch.split(self.weights, BLOCK), strict=True
        ):
            self.sizes += own @ rows.square()

    def __len__(self) -> int:
        return len(self.vectors)

    def mean(self, targets: Tensor) -> Tensor:
        """The weighted mean of targets `[n, L]`, `[L]`."""
        return self.weights @ targets / self.weights.sum()

    def products(self, targets: Tensor) -> Tensor:
        """All that a solution needs of the targets `[n, L]`, `[r, L]`."""
        return self.vectors.T @ (self.weights[:, None] * (targets - self.mean(targets)))

    def leverage(self, penalty: float) -> Tensor:
        """Share of an item's own target in its prediction, `[n]`."""
        shrink = 1 / (self.sizes + penalty)
        own = torch.cat([rows.square() @ shrink for rows in torch.split(self.vectors, BLOCK)])
        return (self.weights * (own + 1 / self.weights.sum())).clamp(max=MOST_LEVERAGE)

    def solve(self, targets: Tensor, penalty: float, products: Tensor | None = None) -> Solution:
        """The solution for targets `[n, L]`.

        Args:
            targets: The targets.
            penalty: Larger than 0.
            products: What `products` gives, to save time with several penalties.
        """
        bias = self.mean(targets)
        products = self.products(targets) if products is None else products
        weight = products / (self.sizes + penalty)[:, None]
        residual = targets - torch.addmm(bias, self.vectors, weight)
        left_out = targets - residual / (1 - self.leverage(penalty))[:, None]
        return Solution(weight.T.contiguous(), bias, left_out)


def seen_label_regression(
    ridge: Ridge, observed: Tensor, penalties: Sequence[float] = PENALTIES
) -> tuple[Solution, float]:
    """Ridge regression on the seen positives, with the penalty of least leave-one-out error.

    The targets of an item are 1 / m at its m seen positives and 0 elsewhere; items without any
    have the mean target.

    Args:
        ridge: The vectors.
        observed: Labels, float `[n, L]` in {1, 0, -1}.
        penalties: To choose from.
    """
    seen = (observed == 1).float()
    counts = seen.sum(1, keepdim=True)
    known = counts[:, 0] > 0
    targets = seen / counts.clamp(min=1)
    weights = ridge.weights * known
    targets[~known] = weights @ targets / weights.sum().clamp(min=1e-12)
    products = ridge.products(targets)

    def error(penalty: float) -> float:
        left_out = ridge.solve(targets, penalty, products).left_out
        return float(weights @ (left_out - targets).square().sum(1))

    penalty = penalties[0] if len(penalties) == 1 else min(penalties, key=error)
    return ridge.solve(targets, penalty, products), penalty


def pick_probabilities(predictions: Tensor, observed: Tensor) -> Tensor:
    """Predictions of the seen label `[n, L]` as probabilities: clipped, with rows that sum to 1."""
    q = predictions.clamp(min=SMALLEST).masked_fill(observed == -1, SMALLEST)
    return q / q.sum(1, keepdim=True)
