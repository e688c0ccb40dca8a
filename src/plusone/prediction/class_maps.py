"""Class maps: where in an image a model finds each class, from heads that have maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from plusone.device import CPU, device_of
from plusone.errors import InputError
from plusone.inputs.loader import Inputs
from plusone.methods import METHODS
from plusone.prediction.load import Predictor

BATCH = 64


@torch.no_grad()
def class_maps(
    predictor: Predictor, inputs: Inputs, tick: Callable[[int], None] | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Batches of inputs `[B, ...]`, their probabilities `[B, L]` and class maps `[B, L, h, w]`."""
    predictor.model.eval()
    device = device_of(predictor.model)
    for (view,) in inputs.batches(torch.arange(len(inputs)), BATCH, ("plain",), 0):
        out = predictor.model(view.to(device))
        if out.maps is None or out.maps.shape[2:] == (1, 1):
            *names, last = (name for name, info in METHODS.items() if info.has_maps)
            able = f"{', '.join(names)} and {last}"
            raise InputError(
                f"this model of {predictor.recipe.method} has no maps; those of {able} have, if "
                "trained on images or tokens"
            )
        scores = torch.sigmoid(predictor.from_logits(out.logits.to(CPU)))
        yield view, scores, out.maps.to(CPU)
        if tick is not None:
            tick(len(view))
