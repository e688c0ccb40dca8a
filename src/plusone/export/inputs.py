"""The inputs of a model: their description, and some of them to check an export on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plusone.data.images import CROPPED, CROPS
from plusone.data.source import Source
from plusone.data.text_encoder import describe_encoder
from plusone.data.text_features import MADE_BY as ENCODER
from plusone.errors import InputError
from plusone.models.backbones import Normalized
from plusone.models.classifier import Normalize
from plusone.prediction.items import inputs_for
from plusone.prediction.load import Predictor
from plusone.prediction.run_folder import read_description

NAME = "inputs"
CUT = (
    "the whole image and four tiles of 60 % of each side, top left, top right, bottom left and "
    "bottom right, cut at its own resolution (plusone.data.images.decode_crops does it)"
)
OF_TEXTS = (
    "vectors of texts by the encoder {name} (package {package} {version}); a text is cut into "
    "windows of up to {window} characters, and its vector is the mean of theirs, each of length 1"
)
SQUARES = {
    "stretch": "resized to the square without keeping the aspect",
    "crop": f"the middle square of {1 / CROPPED:.3f} of the short side, resized",
}


@dataclass(frozen=True)
class InputSpec:
    """What a model takes as input, for its card and `config.json`.

    Args:
        shape: Sizes of the dimensions; names stand for sizes that may vary.
        before: Preprocessing that users have to do; None for features.
        inside: Preprocessing inside the model; None for features.
        mean: Mean per channel that images are normalized with, in [0, 1].
        aspect: How an image or crop becomes square: "stretch" or "crop"; None for features.
        crops: Left, top, right and bottom of each crop, as shares of width and height; None if the
            whole image is the only one.
        encoder: What makes the vectors of texts; None if items are not texts.
    """

    type: str
    shape: tuple[int | str, ...]
    meaning: str
    before: str | None = None
    inside: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    aspect: str | None = None
    crops: tuple[tuple[float, ...], ...] | None = None
    encoder: Mapping[str, object] | None = None

    @property
    def images(self) -> bool:
        """Whether inputs are images."""
        return self.before is not None

    def to_json(self) -> dict[str, Any]:
        """Plain values, without those that do not apply."""
        values = {"name": NAME} | asdict(self)
        return {key: value for key, value in values.items() if value is not None}


def describe_input(predictor: Predictor) -> InputSpec:
    """The input of a model."""
    if not predictor.images:
        vectors = len(predictor.shape) == 1
        kind = "feature vectors" if vectors else "tokens or regions"
        sizes: tuple[int | str, ...] = predictor.shape
        name = predictor.made_by.get(ENCODER)
        encoder = None if name is None else describe_encoder(str(name))
        same = f"{kind} of the same kind as in training, not scaled in any way"
        return InputSpec(
            type="float32",
            shape=("batch", *sizes) if vectors else ("batch", "places", *sizes[1:]),
            meaning=same if encoder is None else OF_TEXTS.format(**encoder),
            encoder=encoder,
        )
    colours = "RGB" if predictor.shape[0] == 3 else "grey"
    mean, std = _normalization(predictor)
    crops = CROPS[predictor.recipe.crops]
    several = len(crops) > 1
    each = f"{CUT}; each " if several else ""
    return InputSpec(
        type="uint8",
        shape=("batch", *([len(crops)] if several else []), *predictor.shape),
        meaning=f"{colours} images, channels first, values from 0 to 255",
        before=f"{each}{SQUARES[predictor.recipe.aspect]}, bilinear with antialiasing, after "
        "applying the orientation noted in the file",
        inside="scaling to the mean and standard deviation of the backbone",
        mean=mean,
        std=std,
        aspect=predictor.recipe.aspect,
        crops=crops if several else None,
    )


def _normalization(
    predictor: Predictor,
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Mean and standard deviation that images are normalized with inside the model, in [0, 1]."""
    backbone = predictor.model.backbone
    if not isinstance(backbone, Normalized):
        return None, None
    normalize = backbone[0]
    assert isinstance(normalize, Normalize)
    scale, offset = normalize.scale.flatten(), normalize.offset.flatten()
    std = 1 / (255 * scale)
    return (
        tuple(round(value, 4) for value in (-offset * std).tolist()),
        tuple(round(value, 4) for value in std.tolist()),
    )


def some_inputs(predictor: Predictor, run: Path, n: int) -> tuple[Tensor, bool]:
    """Up to `n` inputs: of the first items of the run's data (True), or random if it is gone."""
    source = Source.from_json(read_description(run).source)
    try:
        if source is None:
            raise InputError(f"{run}: does not say which data it was trained on")
        dataset = source.load()
        rows = np.arange(min(n, len(dataset.table)))
        inputs = inputs_for(predictor, dataset, rows)
        batches = inputs.batches(torch.arange(len(rows)), len(rows), ("plain",), 0)
        return next(iter(batches))[0], True
    except (InputError, OSError):
        generator = torch.Generator().manual_seed(0)
        crops = len(CROPS[predictor.recipe.crops])
        shape = (n, *([crops] if crops > 1 else []), *predictor.shape)
        if predictor.images:
            return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8), False
        return torch.randn(shape, generator=generator), False
