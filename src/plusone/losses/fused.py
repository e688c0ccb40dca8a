"""A table of losses and its reduction in one pass, so that the table itself is never made.

The losses of a block of rows are computed, added up and forgotten while they are in the
processor's cache. Their derivatives, already scaled by the reduction, go into the one table
`[B, L]` that the backward pass hands on. This works for every loss in which no row depends on
another: by its closed form where it has one, else by automatic differentiation of the block.
Tables of a single block, and those of accelerators, are made and reduced in the usual way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plusone.losses.closed_form import (
    Formula,
    formula_of,
    many_blocks,
    row_blocks,
    value_and_slope,
    working_dtype,
)
from plusone.losses.reduction import Reduction, reduce, share

Tables = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Mapping[str, Tensor]]
Weight = Callable[[str], float]
Slopes = dict[tuple[str, int], Tensor]  # of a term, by the place of the input

N_SETTINGS = 4  # arguments of `_Reduced` before its tensors


def reduced(
    function: Callable[..., Tensor], z: Tensor, *known: Tensor, reduction: Reduction = "mean"
) -> Tensor:
    """`reduce(function(z, *known), reduction)`, faster and with less memory if z is large.

    Args:
        function: A loss of `plusone.losses` that returns a table `[B, L]`; options by
            `functools.partial`. No row may depend on another.
        z: Logits `[B, L]`.
        *known: Observed labels `[B, L]`, and what else the function takes by position.
        reduction: As in `reduce`.

    Returns:
        A scalar, differentiable with respect to z (once, if z is large); for "none" the table.

    >>> from plusone.losses import assume_negative
    >>> reduced(assume_negative, torch.zeros(1, 2), torch.tensor([[1, 0]])).item()
    0.6931471824645996
    """
    if reduction == "none" or not many_blocks(z):
        return reduce(function(z, *known), reduction)
    return reduced_terms(
        lambda views, known: {"loss": function(*views, *known)}, (z,), known, reduction
    )["loss"]


def reduced_terms(
    tables: Tables,
    views: tuple[Tensor, ...],
    known: tuple[Tensor, ...],
    reduction: Reduction = "mean",
    weight: Weight = lambda term: 1.0,
    learned: Sequence[Tensor] = (),
) -> dict[str, Tensor]:
    """Reduces the tables of several terms, which may depend on several logits.

    Args:
        tables: Maps some rows of the views and of what is known to the terms' tables of these rows.
        views: Logits `[B, L]` each.
        known: Tables with B rows each; no gradient reaches them.
        reduction: As in `reduce`, except "none".
        weight: Weight of a term.
        learned: Weights the tables depend on; they get their gradients too.

    Returns:
        A scalar for each term.

    >>> z = torch.ones(2, 3)
    >>> reduced_terms(lambda z, y: {"total": z[0] + y[0]}, (z,), (z,), "sum")
    {'total': tensor(12.)}
    """
    if not many_blocks(views[0]):
        terms = {}
        for name, table in tables(views, known).items():
            value, factor = reduce(table, reduction), weight(name)
            terms[name] = value if factor == 1 else factor * value
        return terms
    part = share(reduction, views[0].shape)
    names: list[str] = []
    values = _Reduced.apply(  # type: ignore[no-untyped-call]
        tables,
        lambda name: weight(name) * part,
        (len(views), len(known)),
        names,
        *views,
        *known,
        *learned,
    )
    return dict(zip(names, values, strict=True))


class _Reduced(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tables: Tables,
        part: Weight,
        counts: tuple[int, int],
        names: list[str],
        *inputs: Tensor,
    ) -> tuple[Tensor, ...]:
        n_tables = sum(counts)
        wanted = ctx.needs_input_grad[N_SETTINGS:]
        learned = {place: inputs[place] for place in range(n_tables, len(inputs)) if wanted[place]}
        blocks = _Blocks(tables, counts[0], wanted, learned)
        sums: dict[str, Tensor] = {}
        slopes: Slopes = {}
        done = 0
        for block in row_blocks(*inputs[:n_tables]):
            rows = slice(done, done + len(block[0]))
            written = set()
            for name, table, found in blocks(block):
                value = table.sum(dtype=working_dtype(table))
                sums[name] = sums[name] + value if name in sums else value
                for place, slope in found.items():
                    key = name, place
                    if place in learned:
                        slopes[key] = slopes.get(key, 0) + slope * part(name)
                        continue
                    if key not in slopes:
                        slopes[key] = torch.empty_like(inputs[place])
                        slopes[key][:done] = 0
                    torch.mul(slope, part(name), out=slopes[key][rows])
                    written.add(key)
            for key in slopes.keys() - written:  # a term that these rows do not depend on
                if key[1] not in learned:
                    slopes[key][rows] = 0
            done = rows.stop
        names.extend(sums)
        ctx.places = [(names.index(name), place) for name, place in slopes]
        ctx.save_for_backward(*slopes.values())
        ctx.set_materialize_grads(False)
        return tuple((value * part(name)).to(table.dtype) for name, value in sums.items())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        found: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        for (term, place), slope in zip(ctx.places, ctx.saved_tensors, strict=True):
            grad, before = grads[term], found[N_SETTINGS + place]
            if grad is None:
                continue
            # Where the term itself is what is minimised, its slope is the gradient: no copy.
            scaled = slope if grad.item() == 1 else grad * slope
            found[N_SETTINGS + place] = scaled if before is None else before + scaled
        return tuple(found)


class _Blocks:
    """Tables of a block and the derivatives of their sums, by formula from the second block on."""

    def __init__(
        self,
        tables: Tables,
        n_views: int,
        wanted: Sequence[bool],
        learned: Mapping[int, Tensor],
    ) -> None:
        self.tables, self.n_views, self.wanted, self.learned = tables, n_views, wanted, learned
        self.formulas: dict[str, Formula] | None = None

    def __call__(self, block: Sequence[Tensor]) -> Iterator[tuple[str, Tensor, dict[int, Tensor]]]:
        """Name, table `[rows, L]` and derivatives, by the place of the input, of each term."""
        if self.formulas:
            for name, formula in self.formulas.items():
                table, slope = value_and_slope(formula, *block)
                yield name, table, {0: slope}
            return
        views = tuple(view.detach() for view in block[: self.n_views])
        leaves = {place: view for place, view in enumerate(views) if self.wanted[place]}
        for leaf in leaves.values():
            leaf.requires_grad_()
        known = tuple(block[self.n_views :])
        with torch.enable_grad():
            found = dict(self.tables(views, known))
        if leaves and self.n_views == 1 and not self.learned:
            self._look_up(found, views[0], known)
        for name, table in found.items():
            slopes = _slopes(table, {**leaves, **self.learned}, again=len(found) > 1)
            yield name, table.detach(), slopes

    def _look_up(
        self, found: Mapping[str, Tensor], view: Tensor, known: tuple[Tensor, ...]
    ) -> None:
        formulas = {name: formula_of(table, view, *known) for name, table in found.items()}
        known_ones = {name: each for name, each in formulas.items() if each is not None}
        self.formulas = known_ones if len(known_ones) == len(found) else None


def _slopes(table: Tensor, leaves: Mapping[int, Tensor], *, again: bool) -> dict[int, Tensor]:
    """Derivatives of the sum of a table, for those leaves it depends on."""
    if not table.requires_grad:
        return {}
    found = torch.autograd.grad(
        table,
        tuple(leaves.values()),
        table.new_ones(()).expand_as(table),
        retain_graph=again,
        allow_unused=True,
    )
    return {place: slope for place, slope in zip(leaves, found, strict=True) if slope is not None}
