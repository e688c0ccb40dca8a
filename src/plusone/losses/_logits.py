"""What every loss does before and after its formula: check shapes, compute in full precision."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])

STATES = (
    "labels must be 1 (seen positive), 0 (unobserved) or -1 (seen negative; of less weight if "
    "between -1 and 0)"
)
_known = ContextVar("_known", default=False)  # whether labels were checked when they were read


@contextmanager
def known_labels() -> Iterator[None]:
    """Labels come from a label matrix: looking at them again would take a fifth of a small step."""
    token = _known.set(True)
    try:
        yield
    finally:
        _known.reset(token)


def on_logits(loss: F) -> F:
    """Wraps a formula of logits and tables of the same shape (labels, other logits).

    Tables are the arguments that may be given by position, options those by keyword only. Tables
    whose shapes differ are refused, because broadcasting would hide the mistake, and so are logits
    that are not floating point, and labels `y` that are not of the three states. Half precision is
    computed in float32; what the formula returns, a tensor or a dict of tensors, is converted back
    to the type of the logits.

    >>> half = torch.tensor([[1.0]], dtype=torch.bfloat16)
    >>> on_logits(lambda z, y: z.exp() * y)(half, half).dtype  # labels y are all 1
    torch.bfloat16
    """
    names = [
        name
        for name, parameter in inspect.signature(loss).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]

    @wraps(loss)
    def wrapped(*tables: Tensor, **options: Any) -> Any:
        tables += tuple(options.pop(name) for name in names[len(tables) :] if name in options)
        z = tables[0]
        for table in tables[1:]:
            if table.shape != z.shape:
                raise ValueError(
                    f"labels {tuple(table.shape)} do not match logits {tuple(z.shape)}"
                )
        if not z.is_floating_point():
            raise ValueError(
                f"logits must be floating-point numbers, not {z.dtype}; the first argument is "
                "logits, the labels come after it"
            )
        if "y" in names[: len(tables)]:
            _check_labels(tables[names.index("y")])
        value = loss(*(_full_precision(table) for table in tables), **options)
        if isinstance(value, dict):
            return {name: term.to(z.dtype) for name, term in value.items()}
        return value.to(z.dtype)

    return cast(F, wrapped)


def _check_labels(y: Tensor) -> None:
    """Refuses labels outside the three states, without reading them on the host."""
    if torch.compiler.is_compiling() or _known.get() or y.device.type not in ("cpu", "cuda"):
        return
    y = y.float()
    known = (y <= 0) & (y >= -1) | (y == 1)
    try:
        torch._assert_async(known.all(), STATES)
    except RuntimeError:  # on the CPU, which asserts at once
        raise ValueError(f"{STATES}; one is {y[~known][0].item():g}") from None


def _full_precision(table: Tensor) -> Tensor:
    """Half precision becomes float32; all other types stay."""
    if not table.is_floating_point():
        return table
    return table.to(torch.promote_types(table.dtype, torch.float32))


def log_probabilities(z: Tensor) -> tuple[Tensor, Tensor]:
    """Log p and log(1 - p) of p = sigmoid(z), exact and finite for logits of any size.

    They are `logsigmoid(z)` and `logsigmoid(-z)` with the logarithm that both share computed once.

    >>> log_p, log_not_p = log_probabilities(torch.tensor([-1000.0, 0.0]))
    >>> log_p.tolist(), log_not_p.tolist()
    ([-1000.0, -0.6931471824645996], [0.0, -0.6931471824645996])
    """
    size = z.abs()
    shared = torch.log1p(torch.exp(-size))
    return (z - size) / 2 - shared, (-z - size) / 2 - shared


def by_state(
    y: Tensor, *, positive: Tensor, unobserved: Tensor | float, negative: Tensor
) -> Tensor:
    """Chooses the cost of each label by what was observed of it.

    The choice is a sum of products with 0 and 1, as in the papers (s L1 + (1 - s) ...): compiled,
    it is several times as fast as `torch.where`, whose masks would be stored as bytes.

    Args:
        y: Observed labels `[..., L]`. Between 0 and -1 the costs are interpolated.
        positive: Costs of seen positives, y = 1.
        unobserved: Costs of unobserved labels, y = 0.
        negative: Costs of seen negatives, y = -1.

    Returns:
        Costs `[..., L]`.

    >>> one = torch.ones(3)
    >>> by_state(torch.tensor([1, 0, -1]), positive=one, unobserved=2 * one, negative=3 * one)
    tensor([1., 2., 3.])
    """
    y = y.to(positive.dtype)
    return y.relu() * positive + (1 - y.abs()) * unobserved + (-y).relu() * negative
