"""Prediction over all items of a data set, in order."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from plusone.models.heads import Head
from plusone.parallel.processes import gather_rows, own_rows
from plusone.training.loader import Inputs
from plusone.types import Outputs

ROWS = {"features": 65_536, "images": 8}  # per batch; larger batches of images are slower
CROPPED = 2  # images of several crops each, per batch
ACTIVATIONS = 1 << 26  # of a head, per batch


@torch.inference_mode()
def predict(
    module: nn.Module,
    forward: Callable[[Tensor], Tensor | Outputs],
    inputs: Inputs,
    *,
    kind: str,
    tick: Callable[[int], None] | None = None,
) -> Tensor:
    """Applies `forward` to all inputs with `module` in evaluation mode.

    Where several processes run, each predicts a share of the rows and all get the whole result, so
    all must call it.

    Args:
        module: The module, in evaluation mode meanwhile.
        forward: Gives a tensor, or `Outputs` whose logits are used.
        inputs: The inputs, in order.
        kind: "features" (large batches: one matrix product for most data sets) or "images".
        tick: Called with the number of items just done.

    Returns:
        `[N, ...]`.
    """
    training = module.training
    module.eval()
    parts = []
    rows = own_rows(len(inputs))
    if not len(rows):
        rows = torch.arange(min(len(inputs), 1))  # a placeholder, for the shape of the result
    for (view,) in inputs.batches(rows, _batch_size(module, kind), ("plain",), 0):
        for piece in torch.split(view, CROPPED) if view.ndim == 5 else (view,):
            out = forward(piece)
            parts.append(out.logits if isinstance(out, Outputs) else out)
        if tick is not None:
            tick(len(view))
    module.train(training)
    return gather_rows(torch.cat(parts)[: len(own_rows(len(inputs)))], len(inputs))


def _batch_size(module: nn.Module, kind: str) -> int:
    """Items per batch, fewer where the head has large activations."""
    widths = [part.width_inside for part in module.modules() if isinstance(part, Head)]
    return min(ROWS[kind], max(1, ACTIVATIONS // max(widths, default=1)))
