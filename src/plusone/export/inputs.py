"""What a model takes: in words for its card, and some of it for checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plusone.data.images import CROPPED
from plusone.data.source import load_source
from plusone.errors import InputError
from plusone.models.backbones import Normalized
from plusone.models.classifier import Normalize
from plusone.training.build import Predictor
from plusone.training.run_folder import read_description
from plusone.training.tagging import inputs_for

NAME = "inputs"
SQUARES = {
    "stretch": "resized to the square without keeping the aspect",
    "crop": f"the middle square of {1 / CROPPED:.3f} of the short side, resized",
}


def describe_input(predictor: Predictor) -> dict[str, Any]:
    """What goes into the model, and what has to be done before."""
    shape = ["batch", *predictor.shape]
    if not predictor.images:
        meaning = "feature vectors" if len(predictor.shape) == 1 else "tokens or regions"
        if len(predictor.shape) == 2:
            shape[1] = "places"
        return {
            "name": NAME,
            "type": "float32",
            "shape": shape,
            "meaning": f"{meaning} of the same kind as in training, not scaled in any way",
        }
    colours = "RGB" if predictor.shape[0] == 3 else "grey"
    return {
        "name": NAME,
        "type": "uint8",
        "shape": shape,
        "meaning": f"{colours} images, channels first, values from 0 to 255",
        "before": f"{SQUARES[predictor.recipe.aspect]}, bilinear with antialiasing, after applying "
        "the orientation noted in the file",
        "inside": "scaling to the mean and spread of the backbone",
    } | _scaling(predictor)


def _scaling(predictor: Predictor) -> dict[str, list[float]]:
    """Mean and spread that images are brought to inside the model, in [0, 1]."""
    backbone = predictor.model.backbone
    if not isinstance(backbone, Normalized):
        return {}
    normalize = backbone[0]
    assert isinstance(normalize, Normalize)
    scale, offset = normalize.scale.flatten(), normalize.offset.flatten()
    std = 1 / (255 * scale)
    return {
        "mean": [round(value, 4) for value in (-offset * std).tolist()],
        "std": [round(value, 4) for value in std.tolist()],
    }


def some_inputs(predictor: Predictor, run: Path, n: int) -> tuple[Tensor, bool]:
    """Inputs of the first items of the run's data; made-up ones if the data is not there any more.

    Returns:
        Up to `n` inputs, and whether they are real.
    """
    source = read_description(run).source
    try:
        dataset = load_source(
            source["data"],
            features=[Path(path) for path in source["features"]],
            format=source["format"],
            labels=source["labels"],
        )
        rows = np.arange(min(n, len(dataset.table)))
        inputs = inputs_for(predictor, dataset, rows)
        batches = inputs.batches(torch.arange(len(rows)), len(rows), ("plain",), 0)
        return next(iter(batches))[0], True
    except (InputError, KeyError, OSError):
        generator = torch.Generator().manual_seed(0)
        shape = (n, *predictor.shape)
        if predictor.images:
            return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8), False
        return torch.randn(shape, generator=generator), False
