"""Features of all images of a data set, extracted once and kept in a file."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plusone.data.dataset import Dataset
from plusone.data.features import write_features
from plusone.data.images import Aspect
from plusone.data.table import Strings
from plusone.errors import InputError, RunError
from plusone.io.arrays import write_array
from plusone.io.files import file_state
from plusone.models.backbones import backbone_for
from plusone.models.fused import fused
from plusone.models.heads import Head, as_tokens
from plusone.parallel.processes import from_writer, share, wait_for_all, world
from plusone.seeds import seeded
from plusone.training.loader import FileInputs

ITEMS_PER_PART = 512
BATCH = 16


@torch.inference_mode()
def extract_to_file(
    dataset: Dataset,
    path: Path,
    backbone: str,
    size: int | None = None,
    workers: int = 2,
    on_progress: Callable[[int], None] | None = None,
    *,
    aspect: Aspect = "stretch",
    weights: str = "auto",
    tokens: bool = False,
) -> dict[str, Any]:
    """Writes `path`, an npz with `ids` `[N]` and features `x` float16 `[N, D]` or `[N, T, D]`.

    Finished parts are kept in a folder beside `path` until all are there, so that a stopped
    extraction goes on where it was. Where several processes run, each makes a share of the parts.

    Args:
        dataset: Items with image files.
        path: The file to write.
        backbone: Name in the backbone table.
        size: Image side; the backbone's own by default.
        workers: Processes that decode images.
        on_progress: Called with the number of items done.
        aspect: How images become square, as for `plusone.data.images.decode`.
        weights: Weights of the backbone: "auto" for its own, "random", or the path of a file.
        tokens: Keep all T places of the feature map, row by row, instead of their mean.

    Returns:
        What was done: out, items, dim, backbone, size.
    """
    table, row = dataset.table, backbone_for(backbone)
    if table.root is None:
        raise InputError(f"{dataset.name}: has no image files to extract features from")
    side = size or row.size
    about = {"backbone": backbone, "size": side, "data": dataset.name}
    about |= {"aspect": aspect} if aspect != "stretch" else {}
    about |= {"weights": weights} if weights != "auto" else {}
    about |= {"tokens": True} if tokens else {}
    broken = {one.id: one.reason for one in dataset.broken}
    about |= {"broken": broken} if broken else {}
    paths = tuple(table.path(number) for number in range(len(table)))
    states = [file_state(file) for file in (Path(weights), *paths)]
    key = hashlib.sha256(repr((about, table.ids.tolist(), states)).encode()).hexdigest()[:12]
    parts = path.with_name(f".{path.name}.{key}.parts")
    parts.mkdir(parents=True, exist_ok=True)
    missing = from_writer(lambda: missing_parts(parts, len(table)))
    mine = [missing[number] for number in share(len(missing)).tolist()]
    rows = torch.cat([torch.empty(0, dtype=torch.int64), *(_rows(p, len(table)) for p in mine)])
    with seeded("extract"):  # a backbone without weights of its own must be the same every time
        net = row.build(3, side, weights).eval()
        noise = torch.randint(0, 256, (1, 3, side, side), dtype=torch.uint8)
    net = fused(net, noise).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    pool = _tokens if tokens else Head().pool
    inputs = FileInputs(paths, side, flip=False, workers=workers, aspect=aspect)
    waiting: list[np.ndarray] = []
    made = 0
    for (images,) in inputs.batches(rows, BATCH, ("plain",), 0) if len(rows) else ():
        images = images.contiguous(memory_format=torch.channels_last)
        waiting.append(pool(net(images)).half().numpy())
        made += len(images)
        if made % ITEMS_PER_PART == 0 or made == len(rows):
            part = mine[(made - 1) // ITEMS_PER_PART]
            write_array(_file(parts, part), np.concatenate(waiting))
            waiting = []
        if on_progress is not None:
            left = sum(len(_rows(p, len(table))) for p in missing)
            on_progress(len(table) - left + min(left, made * world()[1]))
    wait_for_all()
    shape = from_writer(lambda: _join(parts, path, table.ids, about))
    return {"out": str(path), "items": len(table), "dim": shape[-1]} | about


def _file(parts: Path, number: int) -> Path:
    return parts / f"{number:06d}.npy"


def _rows(number: int, n: int) -> Tensor:
    """The items of a part, of `n` in all."""
    return torch.arange(number * ITEMS_PER_PART, min((number + 1) * ITEMS_PER_PART, n))


def missing_parts(parts: Path, n: int) -> list[int]:
    """The parts of `n` items that are not there yet."""
    numbers = range(math.ceil(n / ITEMS_PER_PART))
    return [number for number in numbers if not _file(parts, number).exists()]


def _join(parts: Path, path: Path, ids: Strings, about: dict[str, Any]) -> list[int]:
    """Writes the file from its parts and removes them; returns the shape of the features."""
    if missing_parts(parts, len(ids)):
        raise RunError(
            f"{parts.parent}: not all processes see this folder; extraction on several machines "
            "needs a folder that they share"
        )
    files = [_file(parts, number) for number in range(math.ceil(len(ids) / ITEMS_PER_PART))]
    x = np.concatenate([np.load(file, allow_pickle=False) for file in files])
    write_features(path, ids, x, about)
    shutil.rmtree(parts)
    return list(x.shape)


def _tokens(features: Tensor) -> Tensor:
    return as_tokens(features)[0]
