"""A training step divided among processes: each forwards its rows, all compute the whole loss.

The rows of a batch are divided among the processes. The model's outputs are all-gathered in the
order of the batch, so every process computes the same loss and a method need not know about the
others: its memory is the same everywhere. The gradients of the model are averaged by torch's
`DistributedDataParallel`, while the backward pass still runs (see `processes.all_gather` for why
their average is the gradient of one process). The method's own parameters see the whole batch
everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from plusone.device import CPU
from plusone.errors import RunError
from plusone.parallel._whole_batch import Rows, see_whole_batch
from plusone.parallel.processes import (
    all_gather,
    all_gather_equal,
    all_gather_values,
    lost_process_errors,
    own_rows,
    row_counts,
    world,
)
from plusone.parallel.tables import undivided
from plusone.types import Outputs

TOLERANCE = 1e-4  # relative, between the weights of the processes


def even_owners(n: int) -> Tensor:
    """The rank of each of `n` rows that are divided evenly, each rank's in one piece, int64 `[n]`.

    >>> even_owners(3)
    tensor([0, 0, 0])
    """
    counts = torch.tensor(row_counts(n))
    return torch.repeat_interleave(torch.arange(len(counts)), counts)


class Share(NamedTuple):
    """Which rows of every batch a process works on.

    A batch may be computed in pieces, one after the other (`accumulate`). Each piece is divided,
    so that together the processes compute the pieces of one.

    Args:
        rank: The process.
        size: How many processes there are.
        pieces: In how many pieces a batch is computed.
    """

    rank: int = 0
    size: int = 1
    pieces: int = 1

    def piece_sizes(self, items: int) -> list[int]:
        """Items of each piece of a batch: about equal, and none is empty."""
        number = max(1, min(self.pieces, items))
        return [len(piece) for piece in torch.arange(items).tensor_split(number)]

    def rows(self, items: int) -> Tensor:
        """Its rows of a batch, int64."""
        pieces = torch.split(torch.arange(items), self.piece_sizes(items))
        return torch.cat([piece.tensor_split(self.size)[self.rank] for piece in pieces])


@dataclass(frozen=True, eq=False)
class Division:
    """How rows, `views` times as many as items, are divided among the processes.

    Args:
        owners: The rank that computes each item, int64 `[items]`.
        views: Views of each; the rows of a view are one after the other.
    """

    owners: Tensor
    views: int = 1

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each process."""
        counts: list[int] = torch.bincount(self.owners, minlength=world()[1]).tolist()
        return [self.views * count for count in counts]

    @cached_property
    def own(self) -> Tensor:
        """This process's rows, int64; there may be none."""
        return self._rows(world()[0])

    @cached_property
    def places(self) -> Tensor | None:
        """The position of each row in the rows of all processes; None if it is the same."""
        if self.views == 1 and bool((self.owners.diff() >= 0).all()):
            return None
        return torch.argsort(torch.cat([self._rows(rank) for rank in range(world()[1])]))

    def whole(self, own: Outputs) -> Outputs:
        """The outputs of all rows, from those of this process's rows; with gradients."""
        parts = (own.logits, own.features, own.embeddings, own.maps)
        return Outputs(*(None if part is None else self._whole(part) for part in parts))  # type: ignore[arg-type]

    def gather(self, own: Tensor | None) -> Tensor:
        """The results of all rows `[n, ...]`, from those of this process's; None if it has none."""
        if 0 in self.counts and world()[1] > 1:  # it cannot know their shape
            kind = None if own is None else [str(own.dtype)[6:], *own.shape[1:]]
            kinds: list[Any] = [each for each in all_gather_values(kind) if each is not None]
            dtype, *shape = kinds[0]
            own = torch.zeros(0, *shape, dtype=getattr(torch, dtype)) if own is None else own
        assert own is not None
        return self._whole(own)

    def _whole(self, part: Tensor) -> Tensor:
        rows = all_gather(part[: len(self.own)], self.counts)  # without a placeholder row
        return rows if self.places is None else rows[self.places.to(rows.device)]

    def _rows(self, rank: int) -> Tensor:
        items = torch.nonzero(self.owners == rank)[:, 0]
        return (len(self.owners) * torch.arange(self.views)[:, None] + items).flatten()


class Inputs(Protocol):
    """The part of `plusone.inputs.loader.Inputs` that is needed here."""

    def __len__(self) -> int: ...

    def batches(
        self,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        share: Share = ...,
    ) -> Iterator[tuple[Tensor, ...]]:
        """Batches of the items `order`; with a share, this process's rows of each."""
        ...


class Sharing:
    """Divides the steps of a training among the processes.

    Args:
        model: The model; its batch norms and dropout are replaced, see `see_whole_batch`.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model, self.rows = model, Rows(all_gather_equal)
        self._owners = even_owners(0)  # of the batch last given
        self._sizes: list[int] = []  # of its pieces
        self._averaged: DistributedDataParallel | None = None
        see_whole_batch(model, self.rows)

    def batches(
        self,
        inputs: Inputs,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        owners: Tensor | None = None,
        pieces: int = 1,
    ) -> Iterator[tuple[Tensor, ...]]:
        """This process's rows of every batch; a placeholder row where it has none.

        Args:
            inputs: The inputs.
            order: Rows in the order of the epoch, int64 `[n]`.
            batch_size: Items of a batch, over all processes.
            views: Names of views.
            seed: Seed of the augmentation.
            owners: The rank that has the input of each row of `order`, int64 `[n]`, where each
                process has `own_rows` of the inputs; None if all have all.
            pieces: In how many pieces a batch is computed; with `owners` in one.
        """
        share = Share(*world(), pieces)
        own = inputs.batches(order, batch_size, views, seed, share)  # workers begin at once
        placeholder = order[:1] if owners is None else own_rows(len(inputs))[:1]

        def rows() -> Iterator[tuple[Tensor, ...]]:
            for start in range(0, len(order), batch_size):
                items = min(batch_size, len(order) - start)
                if owners is None:
                    self._sizes = share.piece_sizes(items)
                    self._owners = torch.cat([even_owners(size) for size in self._sizes])
                else:
                    self._sizes, self._owners = [items], owners[start : start + items]
                if bool((self._owners == share.rank).any()):
                    yield next(own)
                else:
                    yield next(iter(inputs.batches(placeholder, 1, views, seed)))

        return rows()

    def divisions(self, views: int) -> list[Division]:
        """How the rows of each piece of the batch last given are divided."""
        return [Division(owners, views) for owners in torch.split(self._owners, self._sizes)]

    def own_rows(self) -> Tensor:
        """Which items of the batch last given this process has the inputs of, int64 `[n]`.

        The first one where it has a placeholder row.
        """
        starts = [0, *accumulate(self._sizes)]
        pairs = zip(starts, self.divisions(1), strict=False)
        rows = torch.cat([start + division.own for start, division in pairs])
        return rows if len(rows) else torch.zeros(1, dtype=torch.int64)

    def forward(
        self, forward: Callable[[Tensor], Outputs], own: Tensor, division: Division
    ) -> Outputs:
        """The outputs of the rows of all processes; layers of the model see all of them.

        Args:
            forward: The model.
            own: The inputs of this process's rows, a placeholder if it has none.
            division: How the rows are divided.
        """
        self.rows.total, self.rows.counted = sum(division.counts), len(division.own) > 0
        placeholder = torch.zeros(division.views, dtype=torch.int64)
        self.rows.own = division.own if self.rows.counted else placeholder
        return division.whole(forward(own))

    def begin_stage(self) -> None:
        """Forgets which weights the last stage trained."""
        self._averaged = None

    def backward(self, losses: Sequence[Tensor], grads: Sequence[Tensor] | None = None) -> None:
        """Adds the gradients of losses that all processes have computed alike.

        Those of the model, with what was added to them before, are averaged over the processes, in
        buckets while the pass still runs.

        Args:
            losses: Scalars, whose sum is minimised; or outputs of the model.
            grads: Gradients of the outputs.
        """
        some_unused = not reaches(losses, self._weights())
        if self._averaged is None or (some_unused and not self._averaged.find_unused_parameters):
            # Convolutions of 1 x 1 have two names for the same layout, which is no problem.
            warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
            with lost_process_errors():
                self._averaged = DistributedDataParallel(
                    _Weights(self._weights()),
                    find_unused_parameters=some_unused,
                    init_sync=False,  # they are equal
                    gradient_as_bucket_view=True,
                )
        with lost_process_errors(of_collectives=True):
            torch.autograd.backward(self._averaged(losses), grads)

    def _weights(self) -> list[nn.Parameter]:
        return [weight for weight in self.model.parameters() if weight.requires_grad]


class _Weights(nn.Module):
    """Weights whose gradients are averaged; the losses that depend on them pass unchanged."""

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(weights)

    def forward(self, losses: Sequence[Tensor]) -> Sequence[Tensor]:
        return losses


def reaches(losses: Sequence[Tensor], weights: Sequence[nn.Parameter]) -> bool:
    """Whether a backward pass from the losses gives every weight a gradient.

    >>> used, unused = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    >>> reaches([2 * used], [used]), reaches([2 * used], [used, unused])
    (True, False)
    """
    left = {id(weight) for weight in weights}
    todo = [loss.grad_fn for loss in losses]
    seen = set(todo)
    while todo and left:
        node = todo.pop()
        if node is None:
            continue
        left.discard(id(getattr(node, "variable", None)))
        for below, _ in node.next_functions:
            if below not in seen:
                seen.add(below)
                todo.append(below)
    return not left


def check_equal_weights(model: nn.Module, method: nn.Module) -> None:
    """Raises an error if the weights of the processes have drifted apart."""
    if world()[1] == 1:
        return
    tensors = (*model.state_dict().values(), *undivided(method))
    checksums = all_gather_equal(torch.stack([_checksum(tensor).to(CPU) for tensor in tensors]))
    if not torch.allclose(checksums, checksums[:1], rtol=TOLERANCE, equal_nan=True):
        raise RunError(
            "the processes do not have the same weights any more; all need the same data, the same "
            "versions of all packages and the same kind of processor"
        )


def _checksum(tensor: Tensor) -> Tensor:
    """A checksum of a tensor, computed without copying it."""
    checksum: Tensor = tensor.sum(dtype=torch.float64)
    if tensor.is_floating_point():
        checksum = torch.linalg.vector_norm(tensor, 1, dtype=torch.float64)
    return checksum
