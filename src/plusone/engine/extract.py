"""Features of all images of a data set, extracted once and kept in a file."""

from __future__ import annotations

import hashlib
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
from plusone.engine.inputs import FileInputs
from plusone.errors import InputError
from plusone.files import file_state, replacing
from plusone.models.backbones import backbone_for
from plusone.models.heads import Head
from plusone.models.labelwise import as_tokens
from plusone.seeds import seeded

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
    extraction goes on where it was.

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
    paths = tuple(table.path(number) for number in range(len(table)))
    states = [file_state(file) for file in (Path(weights), *paths)]
    key = hashlib.sha256(repr((about, table.ids.tolist(), states)).encode()).hexdigest()[:12]
    parts = path.with_name(f".{path.name}.{key}.parts")
    parts.mkdir(parents=True, exist_ok=True)
    done = len(list(parts.glob("*.npy"))) * ITEMS_PER_PART
    with seeded("extract"):  # a backbone without weights of its own must be the same every time
        net = row.build(3, side, weights).eval()
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    pool = _tokens if tokens else Head().pool
    rows = torch.arange(min(done, len(table)), len(table))
    inputs = FileInputs(paths, side, flip=False, workers=workers, aspect=aspect)
    waiting: list[np.ndarray] = []
    for (images,) in inputs.batches(rows, BATCH, ("plain",), 0) if len(rows) else ():
        images = images.contiguous(memory_format=torch.channels_last)
        waiting.append(pool(net(images)).half().numpy())
        done += len(images)
        if done % ITEMS_PER_PART == 0 or done == len(table):
            name = parts / f"{(done - 1) // ITEMS_PER_PART:06d}.npy"
            with replacing(name) as temporary, temporary.open("wb") as file:
                np.save(file, np.concatenate(waiting), allow_pickle=False)
            waiting = []
        if on_progress is not None:
            on_progress(done)
    x = np.concatenate([np.load(part, allow_pickle=False) for part in sorted(parts.glob("*.npy"))])
    write_features(path, table.ids, x, about)
    shutil.rmtree(parts)
    return {"out": str(path), "items": len(x), "dim": x.shape[-1]} | about


def _tokens(features: Tensor) -> Tensor:
    return as_tokens(features)[0]
