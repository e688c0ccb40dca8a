"""Small pictures of items, for pages."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten

import numpy as np
from PIL import Image

from plusone.data.dataset import Dataset
from plusone.data.images import open_image
from plusone.data.shards import exists, is_image
from plusone.data.source import EMBEDDED, Source, load_source
from plusone.errors import InputError

SIDE = 160
LONGEST = 280  # characters of a text


def load_items(source: Source | None) -> Dataset:
    """The data of a run with its images or texts, whichever it has."""
    if source is not None and source.data in EMBEDDED:
        return load_source("digits")
    if source is None or not exists(Path(source.data)):
        raise InputError("the data is not where it was when the training ran")
    from plusone.data.formats import read

    return read(
        Path(source.data),
        format=source.format,
        labels=source.labels,
        separator=source.separator,
        check_images=False,
    )


def thumbnails(dataset: Dataset, ids: Sequence[str]) -> dict[str, str]:
    """Data URIs of the items whose image is there."""
    rows = {str(name): row for row, name in enumerate(dataset.table.ids)}
    found = {}
    for name in ids:
        image = _image(dataset, rows[name]) if name in rows else None
        if image is not None:
            image.thumbnail((SIDE, SIDE))
            found[name] = data_uri(image)
    return found


def excerpts(dataset: Dataset, ids: Sequence[str]) -> dict[str, str]:
    """The beginnings of the texts of items."""
    rows = {str(name): row for row, name in enumerate(dataset.table.ids)}
    texts = dataset.table.texts
    if texts is None:
        return {}
    return {
        name: shorten(texts[rows[name]], LONGEST, placeholder=" …") for name in ids if name in rows
    }


def data_uri(image: Image.Image) -> str:
    """An image as part of a page: small ones without loss, others as JPEG."""
    stream, small = io.BytesIO(), max(image.size) <= 64
    if small:
        image.save(stream, format="PNG", optimize=True)
    else:
        image.convert("RGB").save(stream, format="JPEG", quality=80, optimize=True)
    code = base64.b64encode(stream.getvalue()).decode("ascii")
    return f"data:image/{'png' if small else 'jpeg'};base64,{code}"


def _image(dataset: Dataset, row: int) -> Image.Image | None:
    """An image from memory, or from a file or a shard below the data's own folder."""
    if dataset.features is not None and dataset.features.ndim == 4:
        pixels = np.asarray(dataset.features[row])
        return Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    path = image_file(dataset, row)
    try:
        return None if path is None else open_image(path, at_least=2 * SIDE)
    except (InputError, MemoryError):
        return None


def image_file(dataset: Dataset, row: int) -> Path | None:
    """The image file of an item, if it is below the data's own folder."""
    root = dataset.table.root
    if root is None:
        return None
    path = (root / str(dataset.table.ids[row])).resolve()
    return path if path.is_relative_to(root.resolve()) and is_image(path) else None
