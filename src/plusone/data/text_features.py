"""Vectors of texts as the features of a data set, computed once and then read from the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from plusone.data import feature_store
from plusone.data.broken import NO_TEXT
from plusone.data.dataset import Dataset, Skipped
from plusone.data.features import write_features
from plusone.data.text_encoder import AUTO, TextEncoder, Vectors
from plusone.errors import InputError
from plusone.io.keys import content_key

MADE_BY = "encoder"  # in what a run remembers of its features
PIECE = 256  # texts after which vectors are stored
KEY = 32  # hexadecimal digits


def with_text_features(
    dataset: Dataset, encoder: str = AUTO, on_text: Callable[[int, int], None] | None = None
) -> Dataset:
    """The data set with vectors of its texts as features, without the items of empty texts.

    Args:
        dataset: The data; without texts it is returned as it is.
        encoder: Name of the encoder, see `plusone.data.text_encoder`.
        on_text: Called with the number of texts done so far and the total.
    """
    texts = dataset.table.texts
    if texts is None:
        return dataset
    rows = [row for row, text in enumerate(texts) if text]
    if not rows:
        raise InputError(f"{dataset.name}: has no text that is not empty")
    if len(rows) < len(texts):
        empty = sorted({*range(len(texts))} - {*rows})
        broken = tuple(Skipped(str(dataset.table.ids[row]), NO_TEXT) for row in empty)
        dataset = replace(
            dataset, table=dataset.table.take(rows), broken=(*dataset.broken, *broken)
        )
    model = TextEncoder(encoder)
    features = stored_vectors(model, [texts[row] for row in rows], on_text)
    note = f"texts become {features.shape[1]} features each, by the encoder {model.name}"
    table = replace(dataset.table, notes=(*dataset.table.notes, note))
    return replace(dataset, table=table, features=features, made_by={MADE_BY: model.name})


def write_text_features(dataset: Dataset, path: Path) -> None:
    """Writes the vectors of `with_text_features` as a feature file, which names the encoder."""
    assert dataset.features is not None
    broken = {one.id: one.reason for one in dataset.broken}
    about = {"data": dataset.name, **dataset.made_by} | ({"broken": broken} if broken else {})
    write_features(path, dataset.table.ids, np.asarray(dataset.features), about)


def stored_vectors(
    encoder: TextEncoder,
    texts: Sequence[str],
    on_text: Callable[[int, int], None] | None = None,
) -> Vectors:
    """The vectors of texts `[N, D]`, from the store where they are in it."""
    store = feature_store.FeatureStore(feature_store.features_folder())
    keys = [content_key(text, length=KEY) for text in texts]
    known = store.get(encoder.key, keys)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    left = [*missing]
    for start in range(0, len(left), PIECE):
        piece = left[start : start + PIECE]
        made = encoder([missing[key] for key in piece])
        new = dict(zip(piece, made, strict=True))
        store.put(encoder.key, new)
        known |= new
        if on_text is not None:
            on_text(min(start + PIECE, len(left)), len(left))
    return np.stack([known[key] for key in keys])
