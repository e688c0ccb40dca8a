"""Tables of a method with a row for each training item, divided among the processes.

Each process holds a contiguous part of the rows. The rows of a batch are summed over the processes,
where those that a process does not hold are 0, so that all have them; each process writes and
trains the rows that it holds. Whole tables exist in rank 0 alone, for checkpoints.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from plusone.device import CPU
from plusone.methods._base import Method
from plusone.methods._tables import DividedTable, divided, slots_of
from plusone.parallel.processes import (
    all_gather,
    all_sum,
    broadcast_tensors,
    gather_rows,
    row_counts,
    world,
)

State = dict[str, Tensor]


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
    """The tables `per_item` of a method, each divided among the ranks.

    Args:
        method: The method; its tables are replaced by the rows that this rank holds.
    """

    def __init__(self, method: Method) -> None:
        self._names: set[str] = set()  # in the state of the method
        self._rows = OwnRows(method.labels.n_items)
        self.divide(method)

    def divide(self, method: Method) -> None:
        """Divides the tables that the method has by now and that are not divided yet."""
        for name in method.per_item:
            if name in self._names or (found := slots_of(method, name)) is None:
                continue
            slots, key = found
            slots[key] = divided(self._rows.cut(slots[key].detach()), slots[key], self._rows)
            self._names.add(name)

    def whole(self, state: State) -> State:
        """A state of the method with whole tables, which other ranks than rank 0 leave out."""
        return self._whole(state, self._names)

    def whole_moments(self, weight: Tensor, moments: State) -> State:
        """The same of the moments of a weight, by the names that the optimizer gives them."""
        return self._whole(moments, _moments(weight, moments))

    def receive(self, state: State) -> State:
        """The state of the method that rank 0 has; of tables, the rows that this rank holds."""
        return broadcast_tensors(
            state, lambda name, whole: self._rows.cut(whole) if name in self._names else whole
        )

    def receive_moments(self, weight: Tensor, moments: State) -> State:
        """The same of the moments of a weight."""
        return broadcast_tensors(
            moments,
            lambda name, whole: (
                self._rows.cut(whole) if name in _moments(weight, {name: whole}) else whole
            ),
        )

    def _whole(self, state: State, names: Container[str]) -> State:
        tensors = {}
        for name, tensor in state.items():
            whole = self._rows.whole(tensor) if name in names else tensor
            if whole is not None:
                tensors[name] = whole
        return tensors


def _moments(weight: Tensor, moments: State) -> set[str]:
    """Which moments of a weight are divided as it is: all but a count of steps."""
    is_divided = isinstance(weight, DividedTable)
    return {name for name, tensor in moments.items() if is_divided and tensor.ndim > 0}


def undivided(method: nn.Module) -> list[Tensor]:
    """The tensors of a method's state that every process has whole."""
    tensors: Iterable[Tensor] = method.state_dict(keep_vars=True).values()
    return [tensor.detach() for tensor in tensors if not isinstance(tensor, DividedTable)]
