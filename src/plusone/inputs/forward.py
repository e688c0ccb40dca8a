"""Prediction over all items of a data set, in order."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from plusone.device import CPU, device_of, is_out_of_memory
from plusone.errors import RunError
from plusone.inputs.loader import Inputs
from plusone.inputs.placement import StreamedInputs, owners_of
from plusone.models.heads import Head
from plusone.parallel.division import Division, even_owners
from plusone.parallel.processes import world
from plusone.types import Outputs

ROWS = {"features": 65_536, "images": 8}  # per batch; for a CPU larger batches of images are slower
IMAGES_ON_DEVICE = 128  # per batch of an accelerator, unless its memory has room for fewer
PIXELS = 8 * 512 * 512  # of a piece on a CPU, whose networks need about 1 kB for each
CROPPED, CROPPED_ON_DEVICE = 2, 32  # images of several crops each, all forwarded at once
# Of a head, per batch: tensors of 16 MB, whose memory the C library uses again. Larger ones take
# fresh pages each time, which makes a head with a network for each class three times as slow.
ACTIVATIONS = 1 << 22


@torch.no_grad()
def predict(
    module: nn.Module,
    forward: Callable[[Tensor], Tensor | Outputs],
    inputs: Inputs,
    *,
    kind: str,
    tick: Callable[[int], None] | None = None,
    rows: int | None = None,
) -> Tensor:
    """Applies `forward` to all inputs with `module` in evaluation mode.

    Where several processes run, each predicts a share of the rows and all get the whole result, so
    all must call it.

    Args:
        module: The module, in evaluation mode meanwhile; inputs are moved to its device.
        forward: Gives a tensor, or `Outputs` whose logits are used.
        inputs: The inputs, in order.
        kind: "features" (large batches: one matrix product for most data sets) or "images".
        tick: Called with the number of items just done.
        rows: Items per batch; None for `batch_size`. Where they do not fit, they are halved.

    Returns:
        `[N, ...]`, in the memory of the CPU.
    """
    training, device = module.training, device_of(module)
    module.eval()
    result: Tensor | None = None
    start = 0
    division = _division(inputs) if world()[1] > 1 else None
    own = torch.arange(len(inputs)) if division is None else division.own
    fitting = Fitting(forward, device)
    if isinstance(inputs, StreamedInputs):  # it would move whole batches, which may not fit
        inputs = inputs.inputs
    for (view,) in inputs.batches(own, rows or batch_size(module, kind), ("plain",), 0):
        part = fitting(view)
        if result is None:  # small results kept one by one would hold much freed memory around them
            result = part.new_empty(len(own), *part.shape[1:])
        result[start : start + len(part)] = part
        start += len(part)
        if tick is not None:
            tick(len(view))
    module.train(training)
    if division is not None:
        return division.gather(result)
    assert result is not None
    return result


def _division(inputs: Inputs) -> Division:
    """Which process predicts which rows: the one that holds them, or an even share."""
    owners = owners_of(inputs, torch.arange(len(inputs)))
    return Division(even_owners(len(inputs)) if owners is None else owners)


class Fitting:
    """Applies a function to batches, in pieces for which the memory of a device has room.

    Where it has none, pieces are halved, and stay so.

    Args:
        forward: Gives a tensor, or `Outputs` whose logits are used.
        device: Where it computes.
        cropped: Most images with several crops each in a piece.
    """

    def __init__(
        self,
        forward: Callable[[Tensor], Tensor | Outputs],
        device: torch.device,
        *,
        cropped: int | None = None,
    ) -> None:
        self.forward, self.device = forward, device
        self.cropped = cropped or (CROPPED if device.type == "cpu" else CROPPED_ON_DEVICE)
        self.rows: int | None = None  # of a piece, once it is known that not all fit

    def __call__(self, batch: Tensor) -> Tensor:
        """The results `[B, ...]` of inputs `[B, ...]`, in the memory of the CPU.

        Raises:
            RunError: There is no room for a single row.
        """
        rows = self.rows or len(batch)
        if batch.ndim == 5:
            rows = min(rows, self.cropped)
        if batch.ndim >= 4 and self.device.type == "cpu":
            rows = min(rows, max(1, PIXELS // max(1, batch[0, ..., 0, :, :].numel())))
        start, parts = 0, []
        while start < len(batch):
            try:
                out = self.forward(batch[start : start + rows].to(self.device))
                parts.append((out.logits if isinstance(out, Outputs) else out).to(CPU))
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if rows == 1:
                    raise RunError(
                        f"{self.device} has no room for the model and one input of the shape "
                        f"{tuple(batch.shape[1:])}; use smaller images, or device = cpu"
                    ) from None
                rows = self.rows = rows // 2
            else:
                start += rows
        return torch.cat(parts) if len(parts) > 1 else parts[0]


def batch_size(module: nn.Module, kind: str) -> int:
    """Items per batch, fewer where the head has large activations."""
    widths = [part.width_inside for part in module.modules() if isinstance(part, Head)]
    on_device = kind == "images" and device_of(module).type != "cpu"
    rows = IMAGES_ON_DEVICE if on_device else ROWS[kind]
    return min(rows, max(1, ACTIVATIONS // max(widths, default=1)))
