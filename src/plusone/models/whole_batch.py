"""Layers that look beyond one row, where several processes share a batch.

Batch norms measure the whole batch, and dropout draws its chance for the whole batch. A process has
only some of its rows; layers made for that give these rows the values that one process would.
"""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from plusone.models.dropout import WholeDropout
from plusone.models.rows import Rows
from plusone.models.synced_norm import SyncedNorm


def see_whole_batch(model: nn.Module, rows: Rows) -> None:
    """Replaces the batch norms and the dropout of a model; names and weights stay the same.

    Covered are batch norms of all dimensions, with those of timm that have an activation behind
    them, and `nn.Dropout`. Other layers with chance draw for each process on its own.

    Args:
        model: The model, changed in place.
        rows: Which rows of the whole batch this process has; the layers look it up at every step.
    """
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, _BatchNorm):
                setattr(parent, name, SyncedNorm(layer, rows))
            elif type(layer) is nn.Dropout:
                setattr(parent, name, WholeDropout(layer, rows))
