"""Where a model looked: one map per class, from heads that have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.training.build import Predictor
from plusone.training.loader import Inputs

ROWS = 64


@torch.inference_mode()
def class_maps(
    predictor: Predictor, inputs: Inputs, tick: Callable[[int], None] | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Goes over inputs in order, some at a time.

    Args:
        predictor: A trained model.
        inputs: What to look at.
        tick: Called with the number of items done at a time.

    Yields:
        The inputs `[B, ...]`, their probabilities `[B, L]` and maps `[B, L, h, w]`.
    """
    predictor.model.eval()
    for (view,) in inputs.batches(torch.arange(len(inputs)), ROWS, ("plain",), 0):
        out = predictor.model(view)
        if out.maps is None or out.maps.shape[2:] == (1, 1):
            able = " and ".join(name for name, info in METHODS.items() if info.has_maps)
            raise InputError(
                f"this model of {predictor.recipe.method} has no maps; those of {able} have, if "
                "trained on images or tokens"
            )
        yield view, predictor.method.probabilities(out.logits), out.maps
        if tick is not None:
            tick(len(view))
