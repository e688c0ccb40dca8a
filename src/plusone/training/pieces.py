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
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, autograd, nn

from plusone.seeds import drawn_again
from plusone.types import Outputs

if TYPE_CHECKING:
    from plusone.parallel.ddp import Ranks

Forward = Callable[[Tensor], Outputs]


class Pieces:
    """The two passes of a step; the first one when it is made.

    Args:
        forward: The model, or its head alone.
        views: The inputs, `[B, ...]` for each view.
        number: How many pieces.
        ranks: The ranks that train together; `views` are the rows of this one.
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
        ranks: Ranks | None = None,
        *,
        apart: bool = False,
    ) -> None:
        self.forward, self.ranks, self.apart = forward, ranks, apart
        self.pieces = _split(views, number, ranks)
        # The second pass draws the same dropout; it alone moves batch statistics.
        with torch.no_grad(), drawn_again(views[0].device), keeping_buffers(forward):
            outs = _join([forward_views(forward, piece, apart=apart) for piece in self.pieces])
        self._own = tuple(
            Outputs(*(None if x is None else x.detach().requires_grad_() for x in _fields(out)))  # type: ignore[arg-type]
            for out in outs
        )
        self.outs = self._own if ranks is None else ranks.whole(self._own)

    def backward(self, *, recomputes: bool = False) -> None:
        """The second pass, once the loss of `outs` was differentiated.

        Args:
            recomputes: Whether activations of the model are computed again meanwhile.
        """
        start = 0
        for number, piece in enumerate(self.pieces, 1):
            outs = forward_views(self.forward, piece, apart=self.apart)
            n = len(piece[0])
            pairs = [
                (x, leaf.grad[start : start + n])
                for out, whole in zip(outs, self._own, strict=True)
                for x, leaf in zip(_fields(out), _fields(whole), strict=True)
                if x is not None and x.requires_grad and leaf is not None and leaf.grad is not None
            ]
            # Ranks average their gradients once, with the last piece.
            last = number == len(self.pieces)
            backward: Any = self.ranks.backward if self.ranks and last else autograd.backward
            with keeping_buffers(self.forward, recomputes):
                backward([x for x, _ in pairs], [gradient for _, gradient in pairs])
            start += n


def forward_views(
    forward: Forward,
    views: Sequence[Tensor],
    pieces: int = 1,
    ranks: Ranks | None = None,
    *,
    apart: bool = False,
) -> tuple[Outputs, ...]:
    """The outputs of each view, all views in one forward pass for each piece.

    Args:
        forward: The model.
        views: The inputs, `[B, ...]` for each view.
        pieces: How many pieces the batch is forwarded in.
        ranks: The ranks that train together; `views` are the rows of this one, and the outputs are
            those of the whole batch.
        apart: Whether each view has a forward pass of its own, so that batch norm does not
            normalise it together with the others.
    """
    if ranks is not None or pieces > 1:
        parts = _split(views, pieces, ranks)
        outs = _join([forward_views(forward, part, apart=apart) for part in parts])
        return outs if ranks is None else ranks.whole(outs)
    if apart or len(views) == 1:
        return tuple(forward(view) for view in views)
    return split_views(forward(torch.cat(list(views))), len(views))


def _split(views: Sequence[Tensor], number: int, ranks: Ranks | None) -> list[tuple[Tensor, ...]]:
    """The views of each piece: of about equal size, none of them empty."""
    number = min(number, len(views[0])) if ranks is None else ranks.pieces(number)
    return list(zip(*(view.tensor_split(number) for view in views), strict=True))


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
