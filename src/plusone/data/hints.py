"""Hints: scores of items and classes from elsewhere: a zero-shot tagger, an older model.

A hint file is an npz with `x` `[N, L]` in [0, 1], the `ids` of its rows, and optionally `classes`,
the names of its columns; NaN is "no hint".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.dataset import as_hints
from plusone.data.features import match_ids
from plusone.data.formats.npz import as_texts, load_arrays
from plusone.data.table import ID_ARRAYS, LabelTable, Strings
from plusone.errors import InputError
from plusone.io.files import replacing

__all__ = ["read_hints", "with_hints", "write_hints"]

Hints = npt.NDArray[np.float32]


def read_hints(path: Path) -> tuple[Strings, tuple[str, ...] | None, Hints]:
    """The ids, class names (None if the file has none) and scores `[N, L]` of a hint file."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    arrays = load_arrays(path)
    key = next((name for name in ID_ARRAYS if name in arrays), None)
    if key is None or "x" not in arrays:
        present = ", ".join(arrays) or "nothing"
        raise InputError(f"{path}: needs the arrays x and ids (or names), found {present}")
    x, ids = arrays["x"], as_texts(path, key, arrays[key])
    if x.ndim != 2 or x.dtype.kind not in "fiub" or ids.shape != (len(x),):
        raise InputError(
            f"{path}: x has shape {x.shape} and type {x.dtype}, {key} has shape {ids.shape}; "
            "expected scores [N, L] and names [N]"
        )
    classes = None
    if "classes" in arrays:
        names = as_texts(path, "classes", arrays["classes"])
        if names.shape != x.shape[1:]:
            raise InputError(f"{path}: has {len(names)} classes for {x.shape[1]} columns of x")
        classes = tuple(names.tolist())
        if len(set(classes)) < len(classes):
            raise InputError(f"{path}: has a class twice; each column needs a name of its own")
    return ids, classes, as_hints(x, str(path))


def write_hints(
    path: Path, ids: Sequence[str] | Strings, classes: Sequence[str], x: npt.ArrayLike, meta: Any
) -> None:
    """Writes a hint file atomically; `meta` is any JSON value that says how they were made."""
    names, scores = np.asarray(ids, dtype=np.str_), np.asarray(x, dtype=np.float32)
    if scores.shape != (len(names), len(classes)):
        raise ValueError(f"hints {scores.shape} do not fit {len(names)} ids, {len(classes)} names")
    columns, about = np.asarray(classes, dtype=np.str_), np.array(json.dumps(meta))
    with replacing(path) as part, part.open("wb") as out:
        np.savez(out, allow_pickle=False, x=scores, ids=names, classes=columns, meta=about)


def with_hints(table: LabelTable, path: Path) -> LabelTable:
    """The table with the hints of a file; items and classes that the file lacks have none.

    Items are matched as features are, see `plusone.data.features`. Columns are matched by name, or
    by place if the file does not name them.

    Raises:
        InputError: The file fits no item or no class, or its columns are others than the classes.
    """
    ids, classes, scores = read_hints(path)
    if classes is None:
        if scores.shape[1] != len(table.classes):
            raise InputError(
                f"{path}: has {scores.shape[1]} columns without names for {len(table.classes)} "
                "classes; add the array classes with the name of each column"
            )
        columns = np.arange(len(table.classes))
    else:
        place = {name: column for column, name in enumerate(classes)}
        columns = np.array([place.get(name, -1) for name in table.classes], dtype=np.int64)
        if (columns < 0).all():
            raise InputError(f"{path}: has hints for none of the classes, only for {classes[0]}...")
    rows = match_ids(ids, table.ids, "hints")
    if len(rows) and rows.max() < 0:
        raise InputError(f"{path}: has hints for none of the items, such as {table.ids[0]!s}")
    hints = scores[np.ix_(rows, columns)]
    hints[rows < 0] = np.nan
    hints[:, columns < 0] = np.nan
    return replace(table, hints=hints)
