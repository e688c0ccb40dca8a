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

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, autograd, nn

from plusone.parallel.sharing import Division, Sharing
from plusone.seeds import drawn_again
from plusone.types import Outputs

Forward = Callable[[Tensor], Outputs]


class Pieces:
    """The two passes of a step; the first one when it is made.

    Args:
        forward: The model, or its head alone.
        views: The inputs, `[B, ...]` for each view.
        number: How many pieces.
        sharing: How several processes divide the pieces; `views` are this process's rows.
        apart: Whether each view has a forward pass of its own, see `forward_views`.

    Attributes:
        outs: The outputs of the whole batch for each view. They require gradients, which the loss
            gives them.
    """

    def __init__(
        self,
        forward: nn.Module,
        views: Sequence[Tensor],
        number: int,
        sharing: Sharing | None = None,
        *,
        apart: bool = False,
    ) -> None:
        self.forward, self.sharing = forward, sharing
        self.pieces = _pieces(forward, views, number, sharing, apart)
        # The second pass draws the same dropout; it alone moves batch statistics.
        with torch.no_grad(), drawn_again(views[0].device), keeping_buffers(forward):
            outs = _join([piece() for piece in self.pieces])
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
        for number, piece in enumerate(self.pieces, 1):
            outs = piece()
            n = len(outs[0].logits)
            pairs = [
                (x, leaf.grad[start : start + n])
                for out, whole in zip(outs, self.outs, strict=True)
                for x, leaf in zip(_fields(out), _fields(whole), strict=True)
                if x is not None and x.requires_grad and leaf is not None and leaf.grad is not None
            ]
            # Processes average their gradients once, with the last piece.
            last = number == len(self.pieces)
            backward: Any = self.sharing.backward if self.sharing and last else autograd.backward
            with keeping_buffers(self.forward, recomputes):
                backward([x for x, _ in pairs], [gradient for _, gradient in pairs])
            start += n


def forward_views(
    forward: Forward,
    views: Sequence[Tensor],
    pieces: int = 1,
    sharing: Sharing | None = None,
    *,
    apart: bool = False,
) -> tuple[Outputs, ...]:
    """The outputs of each view, all views in one forward pass for each piece.

    Args:
        forward: The model.
        views: The inputs, `[B, ...]` for each view.
        pieces: How many pieces the batch is forwarded in.
        sharing: How several processes divide the pieces; `views` are this process's rows.
        apart: Whether each view has a forward pass of its own, so that batch norm does not
            normalise it together with the others.
    """
    if pieces > 1 or sharing is not None:
        return _join([piece() for piece in _pieces(forward, views, pieces, sharing, apart)])
    if apart or len(views) == 1:
        return tuple(forward(view) for view in views)
    return split_views(forward(torch.cat(list(views))), len(views))


def _pieces(
    forward: Forward, views: Sequence[Tensor], number: int, sharing: Sharing | None, apart: bool
) -> list[Callable[[], tuple[Outputs, ...]]]:
    """What computes the outputs of each piece of the whole batch, for each view."""
    together = 1 if apart else len(views)  # views in a forward pass

    def one_pass(x: Tensor, division: Division | None) -> tuple[Outputs, ...]:
        if sharing is None or division is None:
            return split_views(forward(x), together)
        return split_views(sharing.forward(forward, x, division), together)

    def piece(part: Sequence[Tensor], division: Division | None) -> tuple[Outputs, ...]:
        inputs = [torch.cat(list(part))] if together > 1 else part
        return tuple(out for x in inputs for out in one_pass(x, division))

    divisions: list[Division | None] = [None]
    parts: Iterable[Sequence[Tensor]] = [views]
    if sharing is not None:
        divisions = [*sharing.divisions(together)]
        sizes = [len(each.own) // together for each in divisions if each is not None]
        # A process without rows in a piece forwards another one as a placeholder.
        parts = [
            [view[stop - size : stop] if size else view[:1] for view in views]
            for size, stop in zip(sizes, accumulate(sizes), strict=True)
        ]
    elif number > 1:
        divisions *= min(number, len(views[0]))  # of about equal size, none of them empty
        parts = zip(*(view.tensor_split(len(divisions)) for view in views), strict=True)
    return [partial(piece, *both) for both in zip(parts, divisions, strict=True)]


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
    for buffer, value in zip(buffers, before, strict=True):
        buffer.data.copy_(value)  # unnoticed by graphs, for which nothing has changed


def _join(pieces: Sequence[tuple[Outputs, ...]]) -> tuple[Outputs, ...]:
    """The outputs of each view from those of the pieces."""
    if len(pieces) == 1:
        return pieces[0]
    return tuple(
        Outputs(*(None if x[0] is None else torch.cat(x) for x in fields))  # type: ignore[arg-type]
        for fields in (zip(*map(_fields, view), strict=True) for view in zip(*pieces, strict=True))
    )


def _fields(outputs: Outputs) -> tuple[Tensor | None, ...]:
    return outputs.logits, outputs.features, outputs.embeddings, outputs.maps
