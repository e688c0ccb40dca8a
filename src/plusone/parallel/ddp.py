"""A training step in several ranks, with the semantics of torch's `DistributedDataParallel`.

Each rank forwards its rows of a batch. The outputs are all-gathered in the order of the batch, so
every rank computes the loss of the whole batch, and a method need not know about ranks: its memory
is the same everywhere. `DistributedDataParallel` averages the gradients of the model while the
backward pass still runs (see `processes.all_gather` for why their average is the gradient of the
whole batch). The method's own parameters see the whole batch in every rank.

Layers of a network see the rows of their rank: batch norm (but `nn.SyncBatchNorm` on accelerators),
and dropout, which each rank draws for itself.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from plusone.device import CPU, device_of
from plusone.errors import RunError
from plusone.methods._base import Method
from plusone.parallel.division import Division, Share, even_owners
from plusone.parallel.processes import all_gather_equal, lost_process_errors, own_rows, world
from plusone.parallel.tables import DividedTables, undivided
from plusone.types import Outputs

SYNCED = ("cuda", "xpu")  # types of devices for which torch has `nn.SyncBatchNorm`
TOLERANCE = 1e-4  # relative, between the weights of the ranks


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
        """Batches of the items `order`; with a share, this rank's rows of each."""
        ...


class Ranks:
    """The ranks that train a model together.

    Args:
        model: The model, on its device; on accelerators its batch norms are synchronised.
        method: The method; its tables with a row for each item are divided among the ranks.

    Attributes:
        rank: That of this process.
        tables: The tables of the method.
        division: How the batch last given is divided.
    """

    def __init__(self, model: nn.Module, method: Method) -> None:
        self.model, self.tables = model, DividedTables(method)
        self.rank, self.size = world()
        self.division = Division(even_owners(0))
        self._averaged: DistributedDataParallel | None = None
        if device_of(model).type in SYNCED:
            sync_batch_norms(model)

    def batches(
        self,
        inputs: Inputs,
        order: Tensor,
        batch_size: int,
        views: Sequence[str],
        seed: int,
        owners: Tensor | None,
    ) -> Iterator[tuple[Tensor, ...]]:
        """This rank's rows of every batch; where it has none, a row whose outputs are not used.

        Args:
            inputs: The inputs.
            order: Rows in the order of the epoch, int64 `[n]`.
            batch_size: Items of a batch, over all ranks.
            views: Names of views.
            seed: Seed of the augmentation.
            owners: The rank that has the input of each row of `order`, int64 `[n]`, where each
                rank has `own_rows` of the inputs; None if all have all.
        """
        share = Share(self.rank, self.size)
        own = inputs.batches(order, batch_size, views, seed, share)  # workers begin at once
        repeated = order[:1] if owners is None else own_rows(len(inputs))[:1]

        def rows() -> Iterator[tuple[Tensor, ...]]:
            for start in range(0, len(order), batch_size):
                items = min(batch_size, len(order) - start)
                some = None if owners is None else owners[start : start + items]
                self.division = Division(even_owners(items) if some is None else some)
                if len(self.division.own):
                    yield next(own)
                else:
                    yield next(iter(inputs.batches(repeated, 1, views, seed)))

        return rows()

    def own_rows(self) -> Tensor:
        """Rows of the batch last given that this rank forwards, int64; the first if it has none."""
        own = self.division.own
        return own if len(own) else torch.zeros(1, dtype=torch.int64)

    def pieces(self, number: int) -> int:
        """In how many pieces each rank computes its rows: as many in all, and none is empty."""
        return min(number, max(1, min(self.division.counts)))

    def whole(self, outs: tuple[Outputs, ...]) -> tuple[Outputs, ...]:
        """The outputs of the whole batch for each view, from those of this rank's rows."""
        return tuple(self.division.whole(out) for out in outs)

    def begin_stage(self) -> None:
        """Other weights may be trained from now on."""
        self._averaged = None

    def backward(self, losses: Sequence[Tensor], grads: Sequence[Tensor] | None = None) -> None:
        """Adds the gradients of losses that all ranks have computed alike.

        Those of the model, with what was added to them before, are averaged over the ranks.

        Args:
            losses: Scalars, whose sum is minimised; or outputs of the model.
            grads: Gradients of the outputs.
        """
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        some_unused = not reaches(losses, weights)
        if self._averaged is None or (some_unused and not self._averaged.find_unused_parameters):
            # Convolutions of 1 x 1 have two names for the same layout, which is no problem.
            warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
            with lost_process_errors():
                self._averaged = DistributedDataParallel(
                    _Weights(weights),
                    find_unused_parameters=some_unused,
                    init_sync=False,  # they are equal
                    gradient_as_bucket_view=True,
                )
        with lost_process_errors(of_collectives=True):
            torch.autograd.backward(self._averaged(losses), grads)

    def broadcast_buffers(self, models: Iterable[nn.Module]) -> None:
        """Gives every rank the buffers of rank 0, such as the running statistics of batch norms."""
        with lost_process_errors():
            for model in models:
                for buffer in model.buffers():
                    distributed.broadcast(buffer, 0)

    def check_equal_weights(self, method: nn.Module) -> None:
        """Raises an error if the weights of the ranks have drifted apart."""
        tensors = (*self.model.state_dict().values(), *undivided(method))
        checksums = all_gather_equal(torch.stack([_checksum(tensor).to(CPU) for tensor in tensors]))
        if not torch.allclose(checksums, checksums[:1], rtol=TOLERANCE, equal_nan=True):
            raise RunError(
                "the processes do not have the same weights any more; all need the same data, the "
                "same versions of all packages and the same kind of processor"
            )


class _Weights(nn.Module):
    """The weights whose gradients are averaged; the losses that depend on them pass unchanged.

    `DistributedDataParallel` looks for unused weights from the outputs of its module. A loss need
    not depend on all outputs of a model, so it looks from the losses.
    """

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


def sync_batch_norms(model: nn.Module) -> None:
    """Replaces the batch norms of a model by `nn.SyncBatchNorm`; names and weights stay.

    Those of timm that include an activation keep it.
    """
    timm = sys.modules.get("timm.layers")
    convert = timm.convert_sync_batchnorm if timm else nn.SyncBatchNorm.convert_sync_batchnorm
    convert(model)


def _checksum(tensor: Tensor) -> Tensor:
    """A checksum of a tensor, computed without copying it."""
    checksum: Tensor = tensor.sum(dtype=torch.float64)
    if tensor.is_floating_point():
        checksum = torch.linalg.vector_norm(tensor, 1, dtype=torch.float64)
    return checksum
