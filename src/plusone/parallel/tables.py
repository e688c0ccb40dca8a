"""Tables of a method with a row for each training item, divided among the processes.

Each process holds a contiguous part of the rows. The rows of a batch are summed over the processes,
where those that a process does not hold are 0, so that all have them; each process writes and
trains the rows that it holds. Whole tables exist in rank 0 alone, for checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from plusone.device import CPU
from plusone.methods._base import Method
from plusone.methods._tables import holder_of, slots_of
from plusone.parallel.processes import (
    all_gather,
    all_sum,
    gather_rows,
    row_counts,
    world,
)


class OwnRows:
    """The rows of tables that this process holds, and one more, to which it writes all others.

    A fixed number of rows is read and written in every process, whoever holds them, so that no
    process has to know on the host which rows of a batch are its own.

    Args:
        n: Rows of all processes.
    """

    def __init__(self, n: int) -> None:
        self.counts = row_counts(n)
        self.count = self.counts[world()[0]]
        self.first = sum(self.counts[: world()[0]])

    def cut(self, whole: Tensor) -> Tensor:
        """The rows `[count + 1, ...]` that this process holds of a table `[N, ...]`."""
        part = whole[self.first : self.first + self.count]
        return torch.cat([part, part.new_zeros(1, *part.shape[1:])])

    def whole(self, part: Tensor) -> Tensor | None:
        """The table `[N, ...]` in the memory of the CPU, in rank 0; None in others."""
        return gather_rows(part[: self.count].to(CPU), self.counts)

    def rows(self, table: Tensor, index: Tensor, *, sparse: bool) -> Tensor:
        """Rows `[B, ...]`; the gradient of the table is that of its own rows."""
        places = self._places(index)
        rows = embedding(places, table, sparse=True) if sparse else table[places]
        others = (places == self.count).view(*places.shape, *[1] * (rows.ndim - places.ndim))
        return all_sum(rows.masked_fill(others, 0))

    def set_rows(self, table: Tensor, index: Tensor, values: Tensor) -> None:
        """Writes rows `[B, ...]`, of which all processes have the same values."""
        table[self._places(index)] = values

    def columns(self, table: Tensor, classes: slice) -> Tensor:
        """The rows of all processes, `[N, classes]`."""
        return all_gather(table[: self.count, classes], self.counts)

    def set_columns(self, table: Tensor, classes: slice, values: Tensor) -> None:
        """Writes the rows of all processes, `[N, classes]`."""
        own = values[self.first : self.first + self.count]
        table[: self.count, classes] = own.to(table.device)

    def _places(self, index: Tensor) -> Tensor:
        """Where rows are in the part of this process; the last place for those of others."""
        own = (index >= self.first) & (index < self.first + self.count)
        return torch.where(own, index - self.first, self.count)


class DividedTables:
    """The tables `per_item` of a method; of one process they stay as they are.

    Args:
        method: The method; its tables are replaced by the rows that this process holds.

    Attributes:
        names: Their names in the state of the method.
    """

    def __init__(self, method: Method) -> None:
        self.names: set[str] = set()
        self._rows = OwnRows(method.labels.n_items)
        self.divide(method)

    def divide(self, method: Method) -> None:
        """Divides the tables that the method has by now and that are not divided yet."""
        for name in method.per_item if world()[1] > 1 else ():
            if name in self.names or (found := slots_of(method, name)) is None:
                continue
            slots, key = found
            table = slots[key]
            part = self._rows.cut(table.detach())
            if isinstance(table, nn.Parameter):
                part = nn.Parameter(part, requires_grad=table.requires_grad)
            part.holder = self._rows  # type: ignore[attr-defined]
            slots[key] = part
            self.names.add(name)

    def whole(
        self, state: Mapping[str, Tensor], divided: Callable[[str, Tensor], bool]
    ) -> dict[str, Tensor]:
        """A state with whole tables; other processes than rank 0 leave them out.

        Args:
            state: Tensors by name, in the same order in all processes.
            divided: Whether each process holds some rows of a tensor.
        """
        tensors = {}
        for name, tensor in state.items():
            whole = self._rows.whole(tensor) if divided(name, tensor) else tensor
            if whole is not None:
                tensors[name] = whole
        return tensors

    def cut(self, whole: Tensor) -> Tensor:
        """The rows that this process holds of a table `[N, ...]`."""
        return self._rows.cut(whole)


def undivided(method: nn.Module) -> list[Tensor]:
    """The tensors of a method's state that every process has whole."""
    tensors: Iterable[Tensor] = method.state_dict(keep_vars=True).values()
    return [tensor.detach() for tensor in tensors if holder_of(tensor) is None]
