"""Derivatives of a method's loss with respect to the logits: all that a linear head needs of it.

Three ways, the fastest first:

- in closed form: each term is one formula of the logits and of what is known of the labels
  (`plusone.losses.closed_form`). The formulas are looked up in the first batches of an epoch; a
  step after that calls them and nothing else;
- the tables of an `Itemwise` method, differentiated by torch;
- any other loss, differentiated by torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from plusone.losses.closed_form import Formula, formula_of, same_formula, value_and_slope
from plusone.losses.reduction import share
from plusone.methods.base import Method
from plusone.methods.itemwise import Itemwise
from plusone.types import Batch, Clock, Outputs

Tables = dict[str, Tensor]

LOOKS = 2  # batches of an epoch that must agree on the formulas


class Sloped(NamedTuple):
    """What a loss says of one batch.

    Args:
        terms: Each term's table `[B, L]`, or its value.
        factors: What a term's entries, added up, must be multiplied with; 1 where none is given.
        slope: Derivative of the whole loss with respect to the logits, `[B, L]`, except that it
            must be multiplied with `scale`.
        scale: See there.
    """

    terms: Tables
    factors: Mapping[str, float]
    slope: Tensor
    scale: float


def is_itemwise(method: Method) -> TypeGuard[Itemwise]:
    """Whether a method's loss is its tables, reduced, and nothing else."""
    return isinstance(method, Itemwise) and type(method).loss is Itemwise.loss


def slopes_of(method: Method) -> Callable[[Tensor, Batch, Clock], Sloped]:
    """The fastest way for a method: a function of logits `[B, L]`, their batch, and the clock."""
    if not is_itemwise(method):
        return lambda logits, batch, clock: _of_loss(method, logits, batch, clock)
    tables = TableSlopes(method)

    def itemwise(logits: Tensor, batch: Batch, clock: Clock) -> Sloped:
        found, slope = tables(logits, method.known(batch, clock), clock)
        part = tables.part(*logits.shape)
        return Sloped(found, tables.factors(part), slope, part)

    return itemwise


class TableSlopes:
    """Tables of an `Itemwise` method and the derivative of their weighted sum.

    The first batches of an epoch are differentiated by torch, and how their tables were made is
    looked up. Only if it was by the same formulas do the other batches of the epoch use these: a
    number that belongs to a batch or to a step differs from one to the next.

    Args:
        method: All views are taken to be the same.
    """

    def __init__(self, method: Itemwise) -> None:
        self.method = method
        self._epoch: tuple[int, int] | None = None  # stage and epoch of what follows
        self._looks = 0
        self._formulas: dict[str, Formula] | None = None  # that all looks agreed on
        self._weights: dict[str, float] = {}
        self._factors: dict[float, dict[str, float]] = {}

    def __call__(
        self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock
    ) -> tuple[Tables, Tensor]:
        """The tables, and Σ weight x d table / d logits; `[B, L]` each."""
        if self._epoch != (clock.stage, clock.epoch):
            self._epoch = (clock.stage, clock.epoch)
            self._looks, self._formulas, self._factors = 0, None, {}
        if self._looks < LOOKS or self._formulas is None:
            return self._differentiated(logits, known, clock)
        tables: Tables = {}
        total: Tensor | None = None
        for name, formula in self._formulas.items():
            tables[name], slope = value_and_slope(formula, logits, *known)
            if (weight := self._weights[name]) != 1:
                slope = slope * weight
            total = slope if total is None else total + slope
        assert total is not None
        return tables, total

    @property
    def closed(self) -> bool:
        """Whether the next batch of the epoch can do without automatic differentiation."""
        return self._looks == LOOKS and self._formulas is not None

    def part(self, n_items: int, n_classes: int) -> float:
        """How much an entry of a term with weight 1 counts in the loss of so many items."""
        return share(self.method.reduction, (n_items, n_classes))

    def factors(self, part: float) -> dict[str, float]:
        """What each table's sum counts, if an entry of a term with weight 1 counts `part`."""
        if part not in self._factors:
            self._factors[part] = {name: part * each for name, each in self._weights.items()}
        return self._factors[part]

    def _look(self, tables: Tables, leaf: Tensor, known: tuple[Tensor, ...]) -> None:
        """Finds out how the tables of a batch were made, and whether as those before it."""
        formulas = {name: formula_of(table, leaf, *known) for name, table in tables.items()}
        found = {name: formula for name, formula in formulas.items() if formula is not None}
        if self._looks == 0:
            self._weights = {name: self.method.weight(name) for name in tables}
            self._formulas = found if len(found) == len(tables) else None
        elif self._formulas is not None:
            same = found.keys() == self._formulas.keys() and all(
                same_formula(formula, self._formulas[name]) for name, formula in found.items()
            )
            self._formulas = found if same else None
        self._looks += 1

    def _differentiated(
        self, logits: Tensor, known: tuple[Tensor, ...], clock: Clock
    ) -> tuple[Tables, Tensor]:
        leaf = logits.detach().requires_grad_()
        with torch.enable_grad():
            tables = self.method.tables((leaf,) * len(self.method.views), known, clock)
        if self._looks < LOOKS:
            self._look(tables, leaf, known)
        moving = {name: table for name, table in tables.items() if table.requires_grad}
        weights = [
            table.new_full((), self._weights[name]).expand_as(table)
            for name, table in moving.items()
        ]
        (slope,) = torch.autograd.grad(list(moving.values()), leaf, weights)
        return {name: table.detach() for name, table in tables.items()}, slope


def _of_loss(method: Method, logits: Tensor, batch: Batch, clock: Clock) -> Sloped:
    """For any loss that reaches nothing but the logits."""
    leaf = logits.detach().requires_grad_()
    outs = tuple(Outputs(leaf, view) for view in batch.views)
    with torch.enable_grad():
        terms = method.loss(outs, batch, clock)
    (slope,) = torch.autograd.grad([term for term in terms.values() if term.requires_grad], leaf)
    return Sloped({name: term.detach() for name, term in terms.items()}, {}, slope, 1.0)
