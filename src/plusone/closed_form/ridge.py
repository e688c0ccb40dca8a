"""Ridge regression in closed form, with predictions without an item, or its group, for free.

Items are read in blocks, and nothing of the size items x classes is kept. What is learned from the
items is a sum over them, so a pass over the blocks gives one matrix `[r + 1, L]` for each model;
with several processes the matrices are summed once per pass. Targets that depend on the predictions
of an earlier round are computed again in each block, from the models of the earlier rounds.

Models without a fold of the items come from the same passes: their normal equations are those of
all items less those of the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from plusone.closed_form.vectors import ALONE, Rows, Sums
from plusone.data.matrix import LabelMatrix
from plusone.probabilities.answers import ANSWERED
from plusone.probabilities.k import LabelsPerItem

LABELS = 1 << 20  # of a block
LEAST, MOST = 128, 4096  # items of a block
GROUP_BLOCK = 2048  # items at once, where groups are left out
MOST_LEVERAGE = 1 - 1e-4
PENALTIES = (
    0.02, 0.03, 0.045, 0.07, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0, 15.0, 25.0,
)  # fmt: skip
COMPARED = 5_000_000  # labels that penalties are compared on, about
SMALLEST = 1e-4  # probability of a pick


@dataclass(frozen=True, eq=False)
class Block:
    """Some items, with all items of their groups.

    Args:
        rows: Which items, int64 `[b]`.
        fold: The fold that all of them are in.
        groups: Places of groups of two items or more in the block, int64 `[c, g]`: c groups of g
            items each.
    """

    rows: Tensor
    fold: int
    groups: tuple[Tensor, ...]


class Ridge:
    """The vectors of a ridge regression, in blocks, and what all regressions on them share.

    The prediction is `x' w + t` with w and t the minimisers of
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
        folds: The fold of each item, int64 `[n]` on the CPU; all of a group are in one. There is a
            model without each fold; by default there is none.

    Attributes:
        sizes: The sum of squares of each column, `[r]`.
        grams: Products of the vectors of each fold, and a column of ones, `[r + 1, r + 1]` each.
    """

    def __init__(
        self,
        vectors: Tensor | Rows,
        weights: Tensor | None = None,
        groups: Tensor | None = None,
        folds: Tensor | None = None,
    ) -> None:
        self.vectors, self.folds = Rows.of(vectors), folds
        self.ranks, n = self.vectors.ranks, len(self.vectors)
        self.device = self.vectors.at(torch.arange(1)).device
        self.weights = torch.ones(n, device=self.device) if weights is None else weights
        self.total = float(self.weights.sum())
        self.groups = None if groups is None or not (groups != groups[0]).any() else groups
        self._order: Tensor | None = None
        for key in (self.groups, folds):
            if key is not None:
                order = torch.arange(n) if self._order is None else self._order
                self._order = order[key[order].argsort(stable=True)]
        count, width = 0 if folds is None else int(folds.max()) + 1, self.vectors.width

        def add_up() -> Sums:
            grams = [torch.zeros(width + 1, width + 1) for _ in range(count)]
            sizes = torch.zeros(width, dtype=torch.float64)
            sums = torch.zeros_like(sizes)
            for block in self.blocks():
                z, own = self.vectors.at(block.rows), self.weights[block.rows.to(self.device)]
                sizes += (own @ z.square()).cpu().double()
                sums += (own @ z).cpu().double()
                if count:
                    z = nn.functional.pad(z, (0, 1), value=1.0)
                    grams[block.fold] += (z.T @ (z * own[:, None])).cpu()
            return sizes, sums, *grams

        sizes, sums, *self.grams = self.ranks.passed(add_up)
        self.sizes = sizes.float().to(self.device)
        self.sums = sums.float().to(self.device)  # nearly 0

    def __len__(self) -> int:
        return len(self.vectors)

    def blocks(self, n_classes: int = 1, rows: Tensor | None = None) -> Iterator[Block]:
        """All items of this process, or some of them with their groups, in blocks.

        Args:
            n_classes: L; the more, the fewer items in a block.
            rows: Some items, int64; all by default.
        """
        order = torch.arange(len(self)) if self._order is None else self._order
        first, last = self.ranks.own(len(self))
        if self.groups is not None:  # no group is divided
            edges = _edges(self.groups[order])
            first, last = _cut(edges, first), _cut(edges, last)
        order = order[first:last]
        if rows is not None:
            wanted = torch.zeros(len(self), dtype=torch.bool)
            wanted[rows] = True
            if self.groups is not None:
                some = torch.zeros(int(self.groups.max()) + 1, dtype=torch.bool)
                some[self.groups[rows]] = True
                wanted = some[self.groups]
            order = order[wanted[order]]
        if not len(order):
            return
        most = min(max(LABELS // n_classes, LEAST), MOST)
        fold = None if self.folds is None else self.folds[order]
        ends = torch.tensor([0, len(order)]) if fold is None else _edges(fold)
        for low, high in ends.unfold(0, 2, 1).tolist():
            part = order[low:high]
            whole = None if self.groups is None else _edges(self.groups[part])
            at = 0
            while at < len(part):
                end = min(at + most, len(part))
                if whole is not None:  # one group at least
                    end = max(_cut(whole, end), int(whole[whole > at][0]))
                own = part[at:end]
                groups = () if self.groups is None else tuple(_by_size(self.groups[own]))
                yield Block(own, 0 if fold is None else int(fold[low]), groups)
                at = end

    def sample(self, rows: Tensor, n_classes: int, labels: int) -> Tensor:
        """Every so many of the rows, int64, where there are more labels than given."""
        return rows[:: -(-len(rows) * n_classes // labels) or 1]


def _edges(values: Tensor) -> Tensor:
    """Where values `[n]` differ from the one before, with 0 and n, int64."""
    inside = (values[1:] != values[:-1]).nonzero()[:, 0] + 1
    return torch.cat([torch.tensor([0]), inside, torch.tensor([len(values)])])


def _cut(edges: Tensor, at: int) -> int:
    """The last of the edges up to a place."""
    return int(edges[int(torch.searchsorted(edges, at, right=True)) - 1])


def _by_size(groups: Tensor) -> Iterator[Tensor]:
    """Places of groups of two items or more, int64 `[c, g]`: c groups of the same size."""
    _, number, sizes = torch.unique(groups, return_inverse=True, return_counts=True)
    order, starts = number.argsort(stable=True), sizes.cumsum(0) - sizes
    for size in sizes[sizes > 1].unique().tolist():
        places = order[starts[sizes == size][:, None] + torch.arange(size)]
        yield from torch.split(places, max(1, GROUP_BLOCK // size))


class Model:
    """The regressions on all items, or on all but those of a fold, with one penalty.

    With M the normal equations, of the vectors and a column of ones, `M^-1 = T T'`. T is diagonal
    for all items.

    Args:
        ridge: The vectors.
        penalty: Of the squared weights, larger than 0.
        fold: The fold whose items are left out; None for none.

    Attributes:
        weights: Of each round `[r + 1, L]`; the last row is the bias.
    """

    def __init__(self, ridge: Ridge, penalty: float, fold: int | None = None) -> None:
        self.ridge, self.fold = ridge, fold
        self.weights: list[Tensor] = []
        self._leverage: dict[int, Tensor] = {}  # by the first row of a block
        total = torch.full((1,), ridge.total, device=ridge.device)
        diagonal = torch.cat([ridge.sizes + penalty, total])
        self.scale = diagonal.rsqrt()
        self.root: Tensor | None = None
        if fold is not None:
            matrix = diagonal.cpu().double().diag() - ridge.grams[fold].double()
            lower = torch.linalg.cholesky(matrix)
            eye = torch.eye(len(lower), dtype=lower.dtype)
            root = torch.linalg.solve_triangular(lower, eye, upper=False).T
            self.root = root.float().to(ridge.device)

    def solved(self, products: Tensor) -> Tensor:
        """The weights `[r + 1, L]` for products of the vectors and ones with targets.

        Args:
            products: `[r + 1, L]`, float64 on the CPU.
        """
        sums = self.ridge.sums
        products = products.float().to(sums.device)
        if self.root is not None:
            return self.root @ (self.root.T @ products)
        mean = products[-1] / self.ridge.total
        centred = products - nn.functional.pad(sums, (0, 1))[:, None] * mean
        weights = self.scale.square()[:, None] * centred
        weights[-1] = mean
        return weights

    def predict(self, z: Tensor, number: int = -1) -> Tensor:
        """Predictions `[b, L]` of a round from vectors `[b, r]`."""
        weights = self.weights[number]
        return torch.addmm(weights[-1], z, weights[:-1])

    def left_out(self, block: Block, z: Tensor, targets: Tensor, number: int = -1) -> Tensor:
        """Predictions `[b, L]` of items by the model of a round without each, or its group.

        Args:
            block: The items.
            z: Their vectors.
            targets: Their targets in this round.
            number: The round.
        """
        residual = torch.sub(targets, table := self.predict(z, number), out=table)
        self._leave_out_(residual, block, z)
        return torch.sub(targets, residual, out=residual)

    def _leave_out_(self, residual: Tensor, block: Block, z: Tensor) -> None:
        """Makes residuals `[b, L]` those of the model without each item, or its group, in place."""
        own = self.ridge.weights[block.rows.to(z.device)]
        remaining = 1 - self._leverages(block, z, own)
        for places in block.groups:
            remaining[places.flatten()] = 1.0
        residual /= remaining[:, None]
        for places in block.groups:
            if places.shape[1] <= z.shape[1]:
                residual[places] = self._without_groups(z[places], own[places], residual[places])
            else:
                for group in places:
                    residual[group] = self._without_large(z[group], own[group], residual[group])

    def _whitened(self, z: Tensor) -> Tensor:
        """V with `V V' S` the hat matrix, `[..., r + 1]`."""
        if self.root is None:
            return nn.functional.pad(z, (0, 1), value=1.0) * self.scale
        return z @ self.root[:-1] + self.root[-1]

    def _leverages(self, block: Block, z: Tensor, own: Tensor) -> Tensor:
        """Share of each item's own target in its prediction, `[b]`."""
        if self.root is None:
            leverage = z.square() @ self.scale[:-1].square() + self.scale[-1] ** 2
        else:
            first = int(block.rows[0])
            known = self._leverage.get(first)
            if known is None or len(known) != len(z):
                known = self._leverage[first] = self._whitened(z).square().sum(1)
            leverage = known
        return (own * leverage).clamp(max=MOST_LEVERAGE)

    def _without_groups(self, z: Tensor, own: Tensor, residual: Tensor) -> Tensor:
        """Residuals `[c, g, L]` of c groups of g items each by models without the group.

        Args:
            z: Vectors `[c, g, r]`.
            own: Weights `[c, g]`.
            residual: Of the model with all items.
        """
        white = self._whitened(z)
        hat = (white @ white.mT) * own.unsqueeze(1)
        without = torch.eye(z.shape[1]) - hat.cpu().double()  # not on every accelerator
        solved: Tensor = torch.linalg.solve(without, residual.cpu().double())
        return solved.to(residual)

    def _without_large(self, z: Tensor, own: Tensor, residual: Tensor) -> Tensor:
        """The same for one group, with more items `[g]` than vectors have columns.

        It needs no matrix of its items: `(I - H_GG)^-1 = I + V (I - V' S V)^-1 V' S`.
        """
        white = self._whitened(z).cpu().double()
        weighted = white.T * own.cpu().double()
        within = torch.eye(len(weighted)) - weighted @ white
        solved: Tensor = torch.linalg.solve(within, weighted @ residual.cpu().double())
        return residual + (white @ solved).to(residual)


class Step(Protocol):
    """How a round makes targets of predictions."""

    def recovered(self, left_out: Tensor, observed: Tensor) -> Tensor:
        """The probability of each label given what was seen, `[b, L]`."""

    def __call__(self, left_out: Tensor, observed: Tensor) -> Tensor:
        """The targets of the next round, `[b, L]`."""


class Solution:
    """Linear models of the labels, of all items and of all but each fold.

    The first round has the seen labels as targets: 1 / m at the m known positives of an item and 0
    elsewhere; items without any have the mean target. Each later round has the targets that its
    step makes of the leave-one-out predictions of the round before.

    Args:
        ridge: The vectors.
        observed: Labels of the items, `[n, L]`, with positives that are answers marked.
        folds: Whether there is a model without each fold of the ridge.

    Attributes:
        penalty: Of the squared weights.
        estimate: What a method estimated of the number of labels and of how they were picked.
        steps: Of the rounds after the first.
    """

    def __init__(self, ridge: Ridge, observed: LabelMatrix, *, folds: bool = True) -> None:
        self.ridge, self.observed = ridge, observed
        self.penalty, self.models = 0.0, list[Model]()
        self.estimate: LabelsPerItem | None = None
        self.steps: list[Step] = []
        self._folds = [None, *range(len(ridge.grams) if folds else 0)]
        positive = observed.values >= 1
        counts = known_positives(observed)
        row = observed.row_of_entry()[positive]
        own = ridge.weights.cpu().double().numpy()
        share = own[row] / counts[row]
        mean = np.bincount(observed.indices[positive], share, observed.n_classes)
        self._mean = torch.from_numpy(mean / max(own[counts > 0].sum(), 1e-12)).float()
        self._mean = self._mean.to(ridge.device)

    def seen(self, rows: Tensor) -> Tensor:
        """Labels of items, int8 `[b, L]`."""
        return torch.from_numpy(self.observed.dense(rows.numpy())).to(self.ridge.device)

    def targets_of_seen(self, seen: Tensor) -> Tensor:
        """Targets of the first round, `[b, L]`."""
        targets = (seen >= 1).float()
        counts = targets.sum(1, keepdim=True)
        targets /= counts.clamp(min=1)
        return torch.where(counts > 0, targets, self._mean)

    def targets(self, model: Model, block: Block, z: Tensor, seen: Tensor, number: int) -> Tensor:
        """Targets `[b, L]` of a round for items that a model has learned from.

        Args:
            model: The model; those of its earlier rounds are used.
            block: The items.
            z: Their vectors.
            seen: Their labels.
            number: The round.
        """
        targets = self.targets_of_seen(seen)
        for step, earlier in zip(self.steps[:number], range(number), strict=True):
            targets = step(model.left_out(block, z, targets, earlier), seen)
        return targets

    def products(self) -> Tensor:
        """Products of vectors and ones with the targets of the next round, for each model.

        One pass over the items and one sum over the processes; float64 `[models, r + 1, L]`.
        """
        (products,) = self.ridge.ranks.passed(self._own_products)
        return products

    def _own_products(self) -> Sums:
        """Those of this process."""
        shape, models = (self.ridge.vectors.width + 1, self.observed.n_classes), self.models
        sums = torch.zeros(len(self._folds), *shape, dtype=torch.float64)
        for block in self.ridge.blocks(self.observed.n_classes):
            rows = block.rows.to(self.ridge.device)
            z, own = self.ridge.vectors.at(block.rows), self.ridge.weights[rows, None]
            seen, product = self.seen(block.rows), None
            for place, fold in enumerate(self._folds):
                if fold == block.fold:
                    continue
                if models or product is None:  # the first targets are those of all models
                    number = len(self.steps)
                    t = self.targets(models[place], block, z, seen, number) if models else None
                    t = (self.targets_of_seen(seen) if t is None else t).mul_(own)
                    product = torch.cat([z.T @ t, t.sum(0, keepdim=True)]).cpu()
                sums[place] += product
        return (sums,)

    def begin(self, penalty: float, products: Tensor) -> None:
        """Solves the first round."""
        self.penalty = penalty
        self.models = [Model(self.ridge, penalty, fold) for fold in self._folds]
        self.solve(products)

    def solve(self, products: Tensor) -> None:
        """Solves a round."""
        for model, own in zip(self.models, products, strict=True):
            model.weights.append(model.solved(own))

    def alone(self) -> Solution:
        """The same for this process alone, which can then ask for items of its own choice."""
        solution = copy(self)
        solution.ridge = copy(self.ridge)
        solution.ridge.ranks = ALONE
        return solution

    def predict(self, z: Tensor) -> Tensor:
        """Predictions `[b, L]` of new items from their vectors `[b, r]`."""
        return self.models[0].predict(z)

    @property
    def weight(self) -> Tensor:
        """Of the linear model of all items, `[L, r]`."""
        return self.models[0].weights[-1][:-1].T.contiguous()

    @property
    def bias(self) -> Tensor:
        """`[L]`."""
        return self.models[0].weights[-1][-1].clone()

    def left_out(self, rows: Tensor | None = None) -> Tensor:
        """Predictions `[n, L]` of items by a model that has not learned from them.

        It is the model without their fold, if there are folds; else that without each, or its
        group.

        Args:
            rows: Which items, int64; all by default.
        """

        def predicted(block: Block, z: Tensor, seen: Tensor) -> Tensor:
            if len(self.models) > 1:
                return self.models[1 + block.fold].predict(z)
            targets = self.targets(self.models[0], block, z, seen, len(self.steps))
            return self.models[0].left_out(block, z, targets)

        return self._table(predicted, rows)

    def recovered(self, rows: Tensor | None = None) -> Tensor:
        """Recovered labels `[n, L]` of items, which were the aim of the last round."""
        last = len(self.steps) - 1

        def found(block: Block, z: Tensor, seen: Tensor) -> Tensor:
            if last < 0:
                return (seen >= 1).float()
            targets = self.targets(self.models[0], block, z, seen, last)
            left_out = self.models[0].left_out(block, z, targets, last)
            return self.steps[last].recovered(left_out, seen)

        return self._table(found, rows)

    def _table(
        self, of_block: Callable[[Block, Tensor, Tensor], Tensor], rows: Tensor | None
    ) -> Tensor:
        """What a function makes of blocks, for some items or all, `[n, L]`."""
        n, n_classes = len(self.ridge), self.observed.n_classes
        place = torch.full((n,), -1)
        wanted = torch.arange(n) if rows is None else rows
        place[wanted] = torch.arange(len(wanted))
        table = torch.zeros(len(wanted), n_classes)
        for block in self.ridge.blocks(n_classes, rows):
            z = self.ridge.vectors.at(block.rows)
            at = place[block.rows]
            kept = at >= 0
            table[at[kept]] = of_block(block, z, self.seen(block.rows)).cpu()[kept]
        return self.ridge.ranks.sum(table)


def known_positives(observed: LabelMatrix) -> npt.NDArray[np.int64]:
    """Number of positives of each item that are seen or answers, `[n]`."""
    return observed.per_item(1) + observed.per_item(ANSWERED)


def seen_label_regression(
    ridge: Ridge,
    observed: LabelMatrix,
    penalties: Sequence[float] = PENALTIES,
    *,
    folds: bool = True,
) -> Solution:
    """Ridge regression on the seen positives, with the penalty of least left-out error.

    Penalties are compared on items with a seen positive, on some where there are very many labels.

    Args:
        ridge: The vectors.
        observed: Labels, `[n, L]`.
        penalties: To choose from.
        folds: Whether there is a model without each fold of the ridge.
    """
    solution = Solution(ridge, observed, folds=folds)
    products, penalty = solution.products(), penalties[0]
    if len(penalties) > 1:
        known = torch.from_numpy(np.flatnonzero(known_positives(observed)))
        rows = ridge.sample(known, observed.n_classes, COMPARED)
        counts = torch.zeros(len(ridge), device=ridge.device)
        counts[rows.to(ridge.device)] = ridge.weights[rows.to(ridge.device)]
        models = [Model(ridge, each) for each in penalties]
        for model in models:
            model.weights.append(model.solved(products[0]))

        def add_up() -> Sums:
            errors = torch.zeros(len(models), dtype=torch.float64)
            for block in ridge.blocks(observed.n_classes, rows):
                z, own = ridge.vectors.at(block.rows), counts[block.rows.to(ridge.device)]
                targets = solution.targets_of_seen(solution.seen(block.rows))
                for place, model in enumerate(models):
                    error = model.left_out(block, z, targets).sub_(targets).square_().sum(1)
                    errors[place] += float(own @ error)
            return (errors,)

        (errors,) = ridge.ranks.passed(add_up)
        penalty = penalties[int(errors.argmin())]
    solution.begin(penalty, products)
    return solution


def regression(ridge: Ridge, targets: Tensor, penalty: float) -> tuple[Model, Tensor]:
    """One round on any targets, and what it predicts for each item, or its group, left out.

    Args:
        ridge: The vectors.
        targets: A table `[n, L]`.
        penalty: Of the squared weights, larger than 0.
    """
    model, blocks = Model(ridge, penalty), list(ridge.blocks(targets.shape[1]))
    targets = targets.to(ridge.device)
    products = torch.zeros(ridge.vectors.width + 1, targets.shape[1], dtype=torch.float64)
    for block in blocks:
        rows = block.rows.to(ridge.device)
        t = targets[rows] * ridge.weights[rows, None]
        products += torch.cat([ridge.vectors.at(block.rows).T @ t, t.sum(0, keepdim=True)]).cpu()
    model.weights.append(model.solved(ridge.ranks.sum(products)))
    left_out = torch.zeros_like(targets)
    for block in blocks:
        own = targets[block.rows.to(ridge.device)]
        left_out[block.rows.to(ridge.device)] = model.left_out(
            block, ridge.vectors.at(block.rows), own
        )
    return model, ridge.ranks.sum(left_out)


def pick_probabilities(predictions: Tensor, observed: Tensor) -> Tensor:
    """Predictions of the seen label `[n, L]` as probabilities: clipped, with rows that sum to 1."""
    q = predictions.clamp(min=SMALLEST).masked_fill_(observed == -1, SMALLEST)
    return q.div_(q.sum(1, keepdim=True))
