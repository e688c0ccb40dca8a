"""A batch in pieces: the gradient of the whole batch in the memory of one piece.

The losses of pieces do not add up to the loss of a batch: many methods look at a whole batch (the
expected number of positives, the largest losses, the weights of seen negatives). So a step has two
passes over the pieces:

1. without a graph, for the outputs of the whole batch. The method computes its loss from them once,
   and the loss is differentiated with respect to the outputs;
2. with a graph, from which each piece backpropagates its rows of that gradient.

By the chain rule this is the gradient of the whole batch, for every method. Layers that mix the
items of a batch (batch norm in training) see one piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from plusone.seeds import drawn_again
from plusone.types import Outputs

Forward = Callable[[Tensor], Outputs]


class Pieces:
    """The two passes of a step; the first one when it is made.

    Args:
        forward: The model, or its head alone.
        views: The inputs, `[B, ...]` for each view.
        number: How many pieces.

    Attributes:
        outs: The outputs of the whole batch for each view. They require gradients, which the loss
            gives them.
    """

    def __init__(self, forward: nn.Module, views: Sequence[Tensor], number: int) -> None:
        self.forward = forward
        self.views = _divide(views, number)
        device = views[0].device
        # The second pass draws the same dropout; it alone moves batch statistics.
        with torch.no_grad(), drawn_again(device), keeping_buffers(forward):
            outs = forward_views(forward, views, number)
        self.outs = tuple(
            Outputs(*(None if x is None else x.detach().requires_grad_() for x in _fields(out)))  # type: ignore[arg-type]
            for out in outs
        )

    def backward(self, *, recomputes: bool = False) -> None:
        """The second pass, once the loss of `outs` was differentiated.

        Args:
            recomputes: Whether activations of the model are computed again meanwhile.
        """
        start = 0
        for views in self.views:
            outs, n = forward_views(self.forward, views), len(views[0])
            pairs = [
                (x, leaf.grad[start : start + n])
                for out, whole in zip(outs, self.outs, strict=True)
                for x, leaf in zip(_fields(out), _fields(whole), strict=True)
                if x is not None and x.requires_grad and leaf is not None and leaf.grad is not None
            ]
            with keeping_buffers(self.forward, recomputes):
                torch.autograd.backward([x for x, _ in pairs], [gradient for _, gradient in pairs])
            start += n


def forward_views(
    forward: Forward, views: Sequence[Tensor], pieces: int = 1
) -> tuple[Outputs, ...]:
    """The outputs of each view, all views in one forward pass for each piece.

    Args:
        forward: The model.
        views: The inputs, `[B, ...]` for each view.
        pieces: How many pieces the batch is forwarded in.
    """
    parts = [
        split_views(forward(torch.cat(part) if len(part) > 1 else part[0]), len(part))
        for part in _divide(views, pieces)
    ]
    return parts[0] if len(parts) == 1 else tuple(_join(part) for part in zip(*parts, strict=True))


def split_views(outputs: Outputs, n_views: int) -> tuple[Outputs, ...]:
    """One `Outputs` per view from the outputs of all views, concatenated."""
    if n_views == 1:
        return (outputs,)
    chunks = [[None] * n_views if x is None else torch.chunk(x, n_views) for x in _fields(outputs)]
    return tuple(Outputs(*view) for view in zip(*chunks, strict=True))


@contextmanager
def keeping_buffers(module: nn.Module, keep: bool = True) -> Iterator[None]:
    """Restores the buffers of a module after the block, so that batches count once in statistics.

    Args:
        module: The module.
        keep: False does nothing.
    """
    buffers: list[Tensor] = list(module.buffers()) if keep else []
    before = [buffer.clone() for buffer in buffers]
    yield
    with torch.no_grad():
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)


def _divide(views: Sequence[Tensor], number: int) -> list[tuple[Tensor, ...]]:
    """Pieces of about equal size, none of them empty; each has all views."""
    number = min(number, len(views[0]))
    if number <= 1:
        return [tuple(views)]
    return list(zip(*(view.tensor_split(number) for view in views), strict=True))


def _join(parts: Sequence[Outputs]) -> Outputs:
    fields = zip(*(_fields(part) for part in parts), strict=True)
    return Outputs(*(None if x[0] is None else torch.cat(x) for x in fields))  # type: ignore[arg-type]


def _fields(outputs: Outputs) -> tuple[Tensor | None, ...]:
    return outputs.logits, outputs.features, outputs.embeddings, outputs.maps
