"""Making hints: scores of all images for all classes by a model of images and texts.

DAMP (Tran et al. 2025, AEVLP, ICCV) looks at the image and at its G x G equal tiles. With s0 the
softmax over the classes for the whole image, and a and b the largest and smallest of its tiles, a
hint is (s0 + agg) / 2, where agg is a if a > eta_i, else b; eta_i = min(eta, s0 at the seen label).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from plusone.data.dataset import Dataset
from plusone.data.hints import write_hints
from plusone.data.images import open_image
from plusone.device import resolve
from plusone.errors import InputError
from plusone.features.parts import Array, compute_in_parts
from plusone.features.zero_shot import ZeroShot, zero_shot
from plusone.io.arrays import write_array
from plusone.io.keys import content_key, file_state

__all__ = ["HintSettings", "focus", "make_hints", "views"]

BATCH = 16  # images
ROWS = 512  # features at a time
DECODERS = 4  # threads


@dataclass(frozen=True)
class HintSettings:
    """How hints are made.

    Args:
        model: Name of the model, see `plusone.features.zero_shot.zero_shot`.
        prompts: Texts of a class, with {} for its name; their vectors are averaged. None is the
            model's own.
        temperature: Of the softmax; None is the model's own.
        scores: "softmax" over the classes, or "sigmoid" for models that were trained with it.
        tiles: G, tiles to a side; 0 looks at the whole image alone.
        eta: Above which the best tile decides, see DAMP.
    """

    model: str = "conse"
    prompts: tuple[str, ...] = ()
    temperature: float | None = None
    scores: Literal["softmax", "sigmoid"] = "softmax"
    tiles: int = 0
    eta: float = 0.0


@torch.no_grad()
def make_hints(
    dataset: Dataset,
    path: Path,
    settings: HintSettings,
    *,
    device: str = "auto",
    on_progress: Callable[[int], None] | None = None,
    relations: Path | None = None,
) -> dict[str, Any]:
    """Writes a hint file for all items of a data set.

    A stopped command resumes, see `plusone.features.parts`. Labels are used for eta_i only, and not
    at all where all of them are known.

    Args:
        dataset: Items with image files, or with features of the model's own backbone (conse: those
            of lite0), which takes no time.
        path: The file to write.
        settings: The model and how its scores become hints.
        device: What it computes on, see `plusone.device.resolve`.
        on_progress: Called with the number of items done.
        relations: A file for the cosines of the texts of all classes `[L, L]`, for `class_graph`.

    Returns:
        How the hints were made, as the file has it.
    """
    table, computes = dataset.table, resolve(device)
    if table.root is None and dataset.features is None:
        raise InputError(f"{dataset.name}: has no image files to make hints from")
    for prompt in settings.prompts:
        if prompt.count("{}") != 1 or prompt.replace("{}", "").count("{"):
            raise InputError(f"the prompt {prompt!r} needs {{}} once, the place of a class name")
    model = zero_shot(settings.model, computes)
    if settings.scores == "sigmoid" and model.scale is None:
        raise InputError(f"{model.name}: was not trained with a sigmoid; use --scores softmax")
    about: dict[str, Any] = {
        "model": model.name,
        "prompts": list(settings.prompts or (model.prompt,)),
        "scores": settings.scores,
        "tiles": settings.tiles,
        "eta": settings.eta,
    }
    if settings.scores == "softmax":
        about["temperature"] = settings.temperature or model.temperature
    texts = model.classes(table.classes, settings.prompts).to(computes)
    if relations is not None:
        write_array(relations, (texts @ texts.T).float().cpu().numpy())
    if dataset.features is not None:
        blocks = list(_of_features(dataset, model, texts, settings, computes))
        write_hints(path, table.ids, table.classes, np.concatenate(blocks), about)
        return about
    paths = [table.path(row) for row in range(len(table))]
    states = [file_state(file) for file in paths]
    key = content_key((about, table.classes, table.ids.tolist(), states, table.labels.digest()))
    seen = None if table.is_complete else table.labels

    def score(rows: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.float32]]:
        for batch, pixels in _decoded(paths, rows, model.size, settings.tiles):
            own = None if seen is None else torch.from_numpy(seen.dense(batch) > 0)
            yield _hints(model, texts, pixels, own, settings).cpu().numpy()

    def write(scores: Array) -> None:
        write_hints(path, table.ids, table.classes, scores, about)

    compute_in_parts(path, key, len(table), score, write, on_progress)
    return about


def _of_features(
    dataset: Dataset, model: ZeroShot, texts: Tensor, settings: HintSettings, device: torch.device
) -> Iterator[npt.NDArray[np.float32]]:
    """Hints of features of the model's own backbone, part by part."""
    x = dataset.features
    assert x is not None
    if model.features is None or x.ndim != 2 or x.shape[1] != model.dim:
        raise InputError(
            f"{dataset.name}: hints of {model.name} cannot be made from features of shape "
            f"{x.shape[1:]}; conse takes those of lite0 ([1280]), other models take images"
        )
    if settings.tiles:
        raise InputError("features have no tiles; make hints from the images, or leave --tiles out")
    for start in range(0, len(x), ROWS):
        rows = np.arange(start, min(start + ROWS, len(x)))
        vectors = model.features(torch.from_numpy(np.asarray(x[rows])).float().to(device))
        yield _scores(model, vectors @ texts.T, settings).cpu().numpy()


def _decoded(
    paths: Sequence[Path], rows: npt.NDArray[np.int64], size: int, tiles: int
) -> Iterator[tuple[npt.NDArray[np.int64], Tensor]]:
    """Batches of row numbers and of the views of their images, bytes `[B, V, 3, size, size]`."""
    with ThreadPoolExecutor(DECODERS) as pool:
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            images = pool.map(lambda row: views(paths[row], size, tiles), batch)
            yield batch, torch.stack(list(images))


def views(path: Path, size: int, tiles: int) -> Tensor:
    """The whole image, then its tiles x tiles equal tiles, bytes `[V, 3, size, size]`.

    An image with fewer pixels than tiles to a side has tiles that overlap.
    """
    pixels = torch.from_numpy(np.array(open_image(path))).permute(2, 0, 1)[None]
    height, width = pixels.shape[2:]
    boxes = [(0, height, 0, width)]
    for row in range(tiles):
        for column in range(tiles):
            top, left = row * height // tiles, column * width // tiles
            bottom = max((row + 1) * height // tiles, top + 1)
            right = max((column + 1) * width // tiles, left + 1)
            boxes.append((top, bottom, left, right))
    parts = [
        interpolate(
            pixels[:, :, top:bottom, left:right], size=(size, size), mode="bilinear",
            antialias=True, align_corners=False,
        )
        for top, bottom, left, right in boxes
    ]  # fmt: skip
    return torch.cat(parts)


def _hints(
    model: ZeroShot, texts: Tensor, pixels: Tensor, seen: Tensor | None, settings: HintSettings
) -> Tensor:
    """Hints `[B, L]` of views `[B, V, 3, S, S]`."""
    cosines = torch.stack([model.images(view.to(texts.device)) for view in pixels.unbind(1)], 1)
    scores = _scores(model, cosines @ texts.T, settings)
    return focus(scores, None if seen is None else seen.to(scores.device), settings.eta)


def _scores(model: ZeroShot, cosines: Tensor, settings: HintSettings) -> Tensor:
    """Scores in [0, 1] of cosines `[..., L]`."""
    if settings.scores == "sigmoid":
        assert model.scale is not None
        return torch.sigmoid(cosines * model.scale[0] + model.scale[1])
    return (cosines / (settings.temperature or model.temperature)).softmax(-1)


def focus(scores: Tensor, seen: Tensor | None = None, eta: float = 0.0) -> Tensor:
    """DAMP: hints `[B, L]` from scores `[B, V, L]` of the whole image and its tiles.

    Args:
        scores: In [0, 1]; the first view is the whole image. Without tiles it is the result.
        seen: Which labels are seen positives, bool `[B, L]`; of several, the lowest score counts.
        eta: Above which the best tile decides, else the worst.

    >>> focus(torch.tensor([[[0.4, 0.6], [1.0, 0.0], [0.2, 0.8]]])).tolist()[0]
    [0.699999988079071, 0.7000000476837158]
    """
    whole, tiles = scores[:, 0], scores[:, 1:]
    if not tiles.shape[1]:
        return whole
    limit = torch.full_like(whole[:, :1], eta)
    if seen is not None:
        lowest = torch.where(seen, whole, torch.inf).amin(-1, keepdim=True)
        limit = torch.minimum(limit, lowest)
    most, least = tiles.amax(1), tiles.amin(1)
    return (whole + torch.where(most > limit, most, least)) / 2
