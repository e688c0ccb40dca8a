"""Elementwise losses whose value and derivative are both written down by hand.

A formula gets a piece of the logits and of the labels and returns the loss and its derivative
with respect to the logit. That saves the chain of intermediate tables that automatic
differentiation keeps, and lets large tables be worked through in blocks of rows that stay in the
processor's cache. Half precision is computed in float32 and handed back in its own type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

Formula = Callable[..., tuple[Tensor, Tensor]]

BLOCK = 131072  # numbers per block: small enough for the cache, large beside the cost of a call
FAR = 1e30  # no logit is as far from zero


def same_shape(z: Tensor, y: Tensor) -> None:
    """Refuses labels that do not match the logits (broadcasting would hide the mistake).

    Raises:
        ValueError: If the shapes differ.

    >>> same_shape(torch.zeros(1, 2), torch.zeros(1, 2))
    """
    if z.shape != y.shape:
        raise ValueError(f"labels {tuple(y.shape)} do not match logits {tuple(z.shape)}")


def working_dtype(z: Tensor) -> torch.dtype:
    """The type to compute in: float32 for half precision, else the tensor's own.

    >>> working_dtype(torch.zeros(1, dtype=torch.bfloat16))
    torch.float32
    """
    return torch.promote_types(z.dtype, torch.float32)


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), which is -logsigmoid(-x); exact in float64 too (the default cuts at 20).

    >>> round(softplus(torch.tensor(0.0)).item(), 4)
    0.6931
    """
    return functional.softplus(x, 1.0, 50.0)


def less(x: Tensor, share: Tensor) -> Tensor:
    """X (1 - share) in one pass: operations with a plain number cost twice as much.

    >>> less(torch.tensor(4.0), torch.tensor(0.25)).item()
    3.0
    """
    return torch.addcmul(x, x, share, value=-1)


def flip(x: Tensor, t: Tensor) -> Tensor:
    """-x where t is 1, x where t is 0.

    >>> flip(torch.tensor(3.0), torch.tensor(1.0)).item()
    -3.0
    """
    return torch.addcmul(x, x, t, value=-2)


def above(x: Tensor, level: float) -> Tensor:
    """1 where x is above a level, else 0, in the type of x: a third of the time of a boolean.

    >>> above(torch.tensor([1.0, 2.0]), 1.0).tolist()
    [0.0, 1.0]
    """
    return torch.gt(x, level, out=torch.empty_like(x))


def hide(z: Tensor, marked: Tensor) -> Tensor:
    """Logits so far below zero where marked is 1 that a negative there costs and teaches nothing.

    >>> torch.sigmoid(hide(torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.0]))).tolist()
    [0.0, 0.5]
    """
    return torch.sub(z, marked, alpha=FAR)


def log_of_sigmoid(z: Tensor, p: Tensor) -> Tensor:
    """Log p where p = sigmoid(z) is at hand: half the time of logsigmoid, absolute error 1e-7.

    Below the smallest normal number p loses its digits, and log p = z takes over.

    >>> log_of_sigmoid(torch.tensor(-100.0), torch.sigmoid(torch.tensor(-100.0))).item()
    -100.0
    """
    tiny = torch.finfo(p.dtype).tiny
    if not z.numel() or z.amin() > math.log(tiny):
        return p.log()
    return p.clamp(min=tiny).log_().add_((z - math.log(tiny)).clamp_(max=0))


def even_gradient(grad: Tensor) -> float | None:
    """The number that a gradient is everywhere, if it is stored as one number; else None.

    >>> even_gradient(torch.ones(()).expand(2, 3))
    1.0
    """
    return None if any(grad.stride()) or not grad.numel() else grad.flatten()[0].item()


def many_blocks(z: Tensor) -> bool:
    """Whether a table is so large that it pays to work through it block by block.

    >>> many_blocks(torch.zeros(4, 131072))
    True
    """
    return z.numel() > BLOCK and z.device.type == "cpu"


def row_blocks(*tables: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Cuts equally shaped tables into the same blocks of rows; accelerators get one block.

    >>> len(list(row_blocks(torch.zeros(4, 131072), torch.zeros(4, 131072))))
    4
    """
    z = tables[0]
    if not many_blocks(z):
        return iter((tables,))
    rows = max(1, BLOCK * len(z) // z.numel())
    return zip(*(torch.split(table, rows) for table in tables), strict=True)


def value_and_slope(formula: Formula, z: Tensor, *known: Tensor) -> tuple[Tensor, Tensor]:
    """What a formula says of every logit, in blocks of rows if there are many.

    Args:
        formula: As for `elementwise`.
        z: Logits `[B, L]`.
        *known: The labels, and further tables the formula needs, `[B, L]` each.

    Returns:
        Losses and their derivatives with respect to z, `[B, L]` each, in the type of z.

    >>> value_and_slope(lambda z, y: (z * z, 2 * z), torch.tensor([[3.0]]), torch.zeros(1, 1))
    (tensor([[9.]]), tensor([[6.]]))
    """
    dtype = working_dtype(z)
    if z.numel() <= BLOCK and z.dtype == dtype:
        return formula(z, *(table if table.dtype == dtype else table.to(dtype) for table in known))
    loss, slope = torch.empty_like(z), torch.empty_like(z)
    for z_, loss_, slope_, *known_ in row_blocks(z, loss, slope, *known):
        value, derivative = formula(z_.to(dtype), *(table.to(dtype) for table in known_))
        loss_.copy_(value)
        slope_.copy_(derivative)
    return loss, slope


class _ClosedForm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, formula: Formula, *known: Tensor) -> Tensor:
        loss, slope = value_and_slope(formula, z, *known)
        ctx.save_for_backward(slope)
        ctx.formula, ctx.known = formula, known
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return grad * slope, *(None for _ in ctx.needs_input_grad[1:])


def elementwise(z: Tensor, y: Tensor, formula: Formula, *more: Tensor) -> Tensor:
    """Applies a formula to every logit and label.

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`, any numeric type; the formula sees them in z's float type.
        formula: Maps (z, y, *more) to (loss, d loss / d z), all of one shape. It must not change
            its arguments.
        *more: Further tables `[B, L]` the formula needs; no gradient reaches them.

    Returns:
        Losses `[B, L]` in the type of z; differentiable once with respect to z.

    Raises:
        ValueError: If the shapes of z and y differ.

    >>> square = lambda z, y: (z * z, 2 * z)
    >>> elementwise(torch.tensor([[3.0]]), torch.zeros(1, 1), square).item()
    9.0
    """
    for table in (y, *more):
        same_shape(z, table)
    loss: Tensor = _ClosedForm.apply(z, formula, y, *more)  # type: ignore[no-untyped-call]
    return loss


def formula_of(table: Tensor, z: Tensor, *known: Tensor) -> Formula | None:
    """The formula by which `elementwise` made a table of z and of what is known.

    Who must do the same for many batches can then do without automatic differentiation:
    `value_and_slope(formula, z, *known)`.

    Args:
        table: Losses `[B, L]`.
        z: A leaf that requires gradients.
        *known: The labels, and further tables.

    Returns:
        The formula; None if the table was made in another way or of something else, or if the
        formula holds tensors of its own, which may be true of this one batch only.

    >>> square = lambda z, y: (z * z, 2 * z)
    >>> z, y = torch.zeros(1, 1, requires_grad=True), torch.ones(1, 1)
    >>> formula_of(elementwise(z, y, square), z, y) is square
    True
    """
    made = _made_from(table, z)
    if made is None or len(made.known) != len(known):
        return None
    same = all(mine is given for mine, given in zip(made.known, known, strict=True))
    formula: Formula = made.formula
    return formula if same and _holds_numbers_only(formula) else None


def _made_from(table: Tensor, z: Tensor) -> Any:
    """The step by which `elementwise` made a table of z itself; None for any other table."""
    made: Any = table.grad_fn
    kind: Any = _ClosedForm._backward_cls
    if type(made) is not kind:
        return None
    (origin, _), *_ = made.next_functions
    return made if getattr(origin, "variable", None) is z else None


def same_formula(one: Formula, other: Formula) -> bool:
    """Whether two formulas are one function with the same settings.

    >>> same_formula(partial(divmod, 7), partial(divmod, 7))
    True
    """
    if isinstance(one, partial) and isinstance(other, partial):
        settings = (one.args, one.keywords) == (other.args, other.keywords)
        return settings and same_formula(one.func, other.func)
    return one is other


def _holds_numbers_only(formula: Formula) -> bool:
    """Whether a formula is a function of its arguments, with nothing but numbers and words set.

    Objects, methods of objects and functions that brought something along are none.
    """
    if isinstance(formula, partial):
        held = [*formula.args, *formula.keywords.values()]
        flat = [one for each in held for one in (each if isinstance(each, tuple) else (each,))]
        plain = all(isinstance(one, int | float | str | None) for one in flat)
        return plain and _holds_numbers_only(formula.func)
    if not isinstance(formula, FunctionType):
        return False
    return not (formula.__closure__ or formula.__defaults__ or formula.__kwdefaults__)
