"""Tables with a row for each training item, wherever their rows are.

A method names such tables in `Method.per_item` and reads and writes them by these functions alone.
It then need not know whether a table is on the device, in the memory of the CPU (`memory =
"host"`), or divided among the processes that train together (`plusone.parallel.tables`).
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

ALL = slice(None)


class Holder(Protocol):
    """Reads and writes a table of which each process holds some rows; all must call it alike."""

    def rows(self, table: Tensor, index: Tensor, *, sparse: bool) -> Tensor: ...

    def set_rows(self, table: Tensor, index: Tensor, values: Tensor) -> None: ...

    def columns(self, table: Tensor, classes: slice) -> Tensor: ...

    def set_columns(self, table: Tensor, classes: slice, values: Tensor) -> None: ...


class DividedTable(Tensor):
    """The rows of a table that this process holds; operations on it give ordinary tensors.

    Attributes:
        holder: Reads and writes rows of the whole table.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    holder: Holder


class DividedParameter(DividedTable, nn.Parameter):
    """The same of a table that is trained."""


def divided(part: Tensor, like: Tensor, holder: Holder) -> DividedTable:
    """Rows of a table as a `DividedTable`.

    Args:
        part: The rows that this process holds.
        like: The table; its rows are a parameter if it is one.
        holder: Reads and writes rows of the whole table.
    """
    kind = DividedParameter if isinstance(like, nn.Parameter) else DividedTable
    table: DividedTable = Tensor._make_subclass(kind, part.detach(), like.requires_grad)
    table.holder = holder
    return table


def holder_of(table: Tensor) -> Holder | None:
    """What reads and writes a divided table; None if this process has all of its rows."""
    return table.holder if isinstance(table, DividedTable) else None


def slots_of(module: nn.Module, path: str) -> tuple[dict[str, Any], str] | None:
    """The dictionary in which a module keeps a parameter or buffer, and its key there.

    Args:
        module: The module.
        path: The name in its state; None is returned if it has no such tensor.
    """
    parent, _, name = path.rpartition(".")
    try:
        owner = module.get_submodule(parent)
    except AttributeError:
        return None
    for slots in (owner._parameters, owner._buffers):
        if slots.get(name) is not None:
            return slots, name
    return None


def rows_of(table: Tensor, index: Tensor | None, *, sparse: bool = False) -> Tensor:
    """Rows of a per-item table `[N, ...]`, on the device of the index.

    Args:
        table: The table.
        index: Which rows, int64 `[B]`; None for all, where the table is.
        sparse: Whether the gradient of the table is sparse.
    """
    if index is None:
        return columns_of(table)
    own, holder = index.to(table.device), holder_of(table)
    if holder is not None:
        rows = holder.rows(table, own, sparse=sparse)
    else:
        rows = embedding(own, table, sparse=True) if sparse else table[own]
    return rows.to(index.device)


def set_rows(table: Tensor, index: Tensor, values: Tensor) -> None:
    """Writes rows `[B, ...]` of a per-item table in place."""
    own, values, holder = index.to(table.device), values.to(table.device), holder_of(table)
    if holder is not None:
        holder.set_rows(table, own, values)
    else:
        table[own] = values


def columns_of(table: Tensor, classes: slice = ALL) -> Tensor:
    """The rows of all items, of some classes or all of them: `[N, classes]`.

    Args:
        table: The table `[N, L]`; the result is on its device, and may share its memory.
        classes: Which classes. A few at a time need less memory where the table is divided.
    """
    holder = holder_of(table)
    return table[:, classes] if holder is None else holder.columns(table, classes)


def set_columns(table: Tensor, values: Tensor, classes: slice = ALL) -> None:
    """Writes the rows of all items `[N, classes]` in place."""
    holder = holder_of(table)
    if holder is not None:
        holder.set_columns(table, classes, values)
    else:
        table[:, classes] = values.to(table.device)
