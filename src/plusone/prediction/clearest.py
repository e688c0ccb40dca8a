"""The clearest part of an image: where a model that is shown several crops finds a label.

Each crop alone gets log-odds s_v of the label, the first of them the whole image. The crop with the
largest s_v is the clearest part if it exceeds s_0, and the mean over the other parts by `LEAD`;
otherwise the label is in no part rather than in the others. This is what the model goes by, and no
detection: parts are large and overlap, and the label may be elsewhere too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt
import torch

from plusone.data.images import cut, open_image, regions
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs
from plusone.prediction.load import Predictor, load_run

LEAD = 2.0  # odds of seven to one
Box = tuple[float, float, float, float]  # left, top, right and bottom as shares of the sides
MEANING = (
    "the part of the picture in which the model finds the label most clearly: one of four "
    "overlapping tiles that it looks at, not a detection"
)


def clearest(log_odds: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The clearest crop of each label, `[..., L]`, from log-odds `[..., V, L]`; 0 if there is none.

    >>> clearest([[1.0, 1.0], [4.0, 2.0], [0.0, 1.5], [0.0, 1.5], [1.0, 0.0]])
    array([1, 0])
    """
    scores = np.asarray(log_odds, dtype=np.float64)
    whole, parts = scores[..., 0, :], scores[..., 1:, :]
    if parts.shape[-2] < 2:
        return np.zeros(whole.shape, dtype=np.int64)
    best = parts.max(axis=-2)
    others = (parts.sum(axis=-2) - best) / (parts.shape[-2] - 1)
    leads = (best > whole) & (best - others >= LEAD)
    return np.asarray(np.where(leads, 1 + parts.argmax(axis=-2), 0))


def box_of(predictor: Predictor, crop: int, size: tuple[int, int]) -> Box | None:
    """The part of an image that a crop shows; None for crop 0, the whole.

    Args:
        predictor: The model that is shown the crops.
        crop: Number of the crop.
        size: Width and height of the image, or of a smaller version of it.
    """
    if crop == 0:
        return None
    (width, height), shown = size, predictor.shown
    tiles = regions(width, height, shown.crops, predictor.shape[-1], shown.aspect)
    left, top, right, bottom = tiles[crop]
    return left / width, top / height, right / width, bottom / height


class ClearestParts:
    """Finds the clearest parts of image files by a run, whose model is loaded when first needed.

    Args:
        run: The run folder.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._predictor: Predictor | None = None
        self._lock = Lock()

    def of(self, path: Path, names: Sequence[str]) -> dict[str, Box]:
        """The boxes of those labels of an image file that have one.

        Raises:
            InputError: There is no model.
        """
        with self._lock:
            predictor = self._predictor = self._predictor or load_run(self.run)
            shown, side = predictor.shown, predictor.shape[-1]
            if not predictor.images or shown.crops == "one":
                return {}
            try:
                image = open_image(path)
            except InputError:
                return {}
            pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
            crops = cut(pixels[None], shown.crops, (side, side), shown.aspect)
            _, log_odds = predictor.of_crops(ArrayInputs(crops))
        best = dict(zip(predictor.classes, clearest(log_odds[0]).tolist(), strict=True))
        boxes = {name: box_of(predictor, best.get(name, 0), image.size) for name in names}
        return {name: box for name, box in boxes.items() if box is not None}
