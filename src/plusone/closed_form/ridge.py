"""Ridge regression in closed form, with predictions without an item, or its group, for free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from plusone.probabilities.k import LabelsPerItem

BLOCK = 8192  # items at once
GROUP_BLOCK = 2048  # items at once, where groups are left out
MOST_LEVERAGE = 1 - 1e-4
PENALTIES = (
    0.02, 0.03, 0.045, 0.07, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0, 15.0, 25.0,
)  # fmt: skip
SMALLEST = 1e-4  # probability of a pick


@dataclass(frozen=True)
class Solution:
    """A linear model and its predictions of items that it was not fitted on.

    Args:
        weight: `[L, r]`.
        bias: `[L]`.
        left_out: What the model fitted without an item, or its group, predicts for it, `[n, L]`.
        targets: The targets of its items `[n, L]`, where a method estimates them.
        estimate: What the method estimated of the number of labels and of how they were picked.
        penalty: The penalty of the squared weights, where a method chose it.
    """

    weight: Tensor
    bias: Tensor
    left_out: Tensor
    targets: Tensor | None = None
    estimate: LabelsPerItem | None = None
    penalty: float | None = None


class Ridge:
    """Ridge regression of any targets on the same vectors.

    The prediction is `t + x' w` with t the mean target and w the minimiser of
    `sum_i s_i (t_i - t - x_i' w)^2 + penalty |w|^2`, s_i being the weight of item i. The columns
    of the vectors are centred and uncorrelated (`plusone.closed_form.kernel.FeatureMap`), so w is a
    product and a division. Leaving item i out changes its residual e_i to `e_i / (1 - h_i)`, with
    h_i its leverage. Leaving its whole group G out changes the residuals of the group to
    `(I - H_GG)^-1 e_G`, with H_GG the rows and columns of the group in the hat matrix, the matrix
    that makes predictions of targets.

    Args:
        vectors: `[n, r]`, with centred, uncorrelated columns.
        weights: How much each item counts, `[n]`, 1 on average; all the same by default.
        groups: Number of each item's group, int64 `[n]` on the CPU; items are left out together
            with their group. By default, and if there is one group only, each is left out alone.
    """

    def __init__(
        self, vectors: Tensor, weights: Tensor | None = None, groups: Tensor | None = None
    ) -> None:
        self.vectors = vectors
        self.weights = vectors.new_ones(len(vectors)) if weights is None else weights
        self.sizes = vectors.new_zeros(vectors.shape[1])
        for rows, own in zip(
            torch.split(vectors, BLOCK), torch.split(self.weights, BLOCK), strict=True
        ):
            self.sizes += own @ rows.square()
        self.groups = [] if groups is None else list(_rows_by_size(groups))

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
        table = torch.addmm(bias, self.vectors, weight)  # one for all steps: tables are large
        torch.sub(targets, table, out=table)
        self.leave_out_(table, penalty)
        torch.sub(targets, table, out=table)
        return Solution(weight.T.contiguous(), bias, table)

    def leave_out_(self, residual: Tensor, penalty: float) -> None:
        """Makes residuals `[n, L]` those of the model without each item, or its group, in place."""
        remaining = 1 - self.leverage(penalty)
        for rows in self.groups:
            remaining[rows.flatten()] = 1.0
        residual /= remaining[:, None]
        for rows in self.groups:
            if rows.shape[1] <= self.vectors.shape[1]:
                residual[rows] = self._without_groups(rows, residual[rows], penalty)
            else:
                for group in rows:
                    residual[group] = self._without_large_group(group, residual[group], penalty)

    def _without_groups(self, rows: Tensor, residual: Tensor, penalty: float) -> Tensor:
        """Residuals `[b, g, L]` of b groups of g items each by models without the group.

        With Z the vectors and a column of ones, A the diagonal matrix of `sizes + penalty` and the
        sum of all weights, and S the weights of the group, H_GG is `Z A^-1 Z' S`.

        Args:
            rows: The rows of the groups, int64 `[b, g]`.
            residual: Of the model with all items.
            penalty: Larger than 0.
        """
        vectors = self.vectors[rows]
        hat = (vectors / (self.sizes + penalty)) @ vectors.mT + 1 / self.weights.sum()
        hat *= self.weights[rows].unsqueeze(1)
        without = torch.eye(rows.shape[1]) - hat.cpu().double()  # not on every accelerator
        solved: Tensor = torch.linalg.solve(without, residual.cpu().double())
        return solved.to(residual)

    def _without_large_group(self, rows: Tensor, residual: Tensor, penalty: float) -> Tensor:
        """The same for one group, with more items `[g]` than Z has columns.

        It needs no matrix of its items: `(I - H_GG)^-1 = I + Z (A - Z' S Z)^-1 Z' S`. It is written
        with `Z A^-1/2`, whose products are at most one.
        """
        width = self.vectors.shape[1] + 1
        scale = torch.cat([self.sizes + penalty, self.weights.sum()[None]]).cpu().double().rsqrt()
        within = torch.zeros(width, width, dtype=scale.dtype)
        right = torch.zeros(width, residual.shape[1], dtype=scale.dtype)

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            for part in torch.split(torch.arange(len(rows)), GROUP_BLOCK):
                vectors = nn.functional.pad(self.vectors[rows[part]], (0, 1), value=1.0)
                yield part, vectors.cpu().double() * scale

        for part, scaled in blocks():
            weighted = scaled * self.weights[rows[part], None].cpu()
            within += scaled.T @ weighted
            right += weighted.T @ residual[part].cpu().double()
        solved = torch.linalg.solve(torch.eye(width) - within, right)
        return torch.cat(
            [residual[part] + (scaled @ solved).to(residual) for part, scaled in blocks()]
        )


def _rows_by_size(groups: Tensor) -> Iterator[Tensor]:
    """Rows of groups of two items or more, int64 `[b, g]`: b groups of the same size."""
    _, number, sizes = torch.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        return
    order, starts = number.argsort(stable=True), sizes.cumsum(0) - sizes
    for size in sizes[sizes > 1].unique().tolist():
        rows = order[starts[sizes == size][:, None] + torch.arange(size)]
        yield from torch.split(rows, max(1, GROUP_BLOCK // size))


def seen_label_regression(
    ridge: Ridge, observed: Tensor, penalties: Sequence[float] = PENALTIES
) -> tuple[Solution, float]:
    """Ridge regression on the seen positives, with the penalty of least left-out error.

    The targets of an item are 1 / m at its m known positives and 0 elsewhere; items without any
    have the mean target.

    Args:
        ridge: The vectors.
        observed: Labels, float `[n, L]` in {1, 0, -1}; 2 for positives that are answers.
        penalties: To choose from.
    """
    targets = (observed >= 1).float()
    counts = targets.sum(1, keepdim=True)
    known = counts[:, 0] > 0
    targets /= counts.clamp(min=1)
    weights = ridge.weights * known
    targets[~known] = weights @ targets / weights.sum().clamp(min=1e-12)
    products = ridge.products(targets)

    def error(penalty: float) -> float:
        left_out = ridge.solve(targets, penalty, products).left_out
        return float(weights @ left_out.sub_(targets).square_().sum(1))

    penalty = penalties[0] if len(penalties) == 1 else min(penalties, key=error)
    return ridge.solve(targets, penalty, products), penalty


def pick_probabilities(predictions: Tensor, observed: Tensor) -> Tensor:
    """Predictions of the seen label `[n, L]` as probabilities: clipped, with rows that sum to 1."""
    q = predictions.clamp(min=SMALLEST).masked_fill_(observed == -1, SMALLEST)
    return q.div_(q.sum(1, keepdim=True))
