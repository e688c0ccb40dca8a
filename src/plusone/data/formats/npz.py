"""npz: the format of this package (everything in a `LabelTable`), and arrays from elsewhere.

Arrays from elsewhere are `y` or `labels` `[N, L]` with optional `x`, `ids`, `classes`, `split`,
`group`, or the MULAN arrays `xtr ytr xte yte labels`. Pickled objects are never loaded.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from plusone.data.checks import (
    as_floats,
    check_groups,
    check_ids,
    check_names,
    check_splits,
)
from plusone.data.dataset import Dataset, as_hints
from plusone.data.formats.base import ReadOptions, images_root, root_from
from plusone.data.matrix import LabelMatrix
from plusone.data.table import ID_ARRAYS, LabelTable, Strings
from plusone.errors import InputError, Problems
from plusone.io.arrays import Arrays, load_npz
from plusone.io.files import replacing
from plusone.io.readers import parse_json, unpacked_limit

MARK = "plusone-labels-1"


def detects(path: Path) -> bool:
    """A file that ends in `.npz`."""
    return path.is_file() and path.suffix.lower() == ".npz"


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads the file; the names of its arrays tell which kind it is."""
    arrays = load_arrays(path)
    if "plusone" in arrays:
        return _own(path, arrays, options)
    if {"xtr", "ytr", "xte", "yte"} <= arrays.keys():
        return from_arrays(path, join_parts(path, arrays), options)
    if "y" in arrays or ("labels" in arrays and arrays["labels"].ndim == 2):
        return from_arrays(path, arrays, options)
    present = ", ".join(arrays) or "nothing"
    hint = "; it holds features, which go with a label file" if "x" in arrays else ""
    raise InputError(
        f"{path}: has no labels in it: expected 'y' or 'labels' [N, L], found {present}{hint}"
    )


def write(data: Dataset, path: Path) -> None:
    """Writes everything in the data set."""
    table = data.table
    arrays: Arrays = {
        "plusone": np.array(MARK),
        "ids": table.ids,
        "classes": np.asarray(table.classes, dtype=np.str_),
        "observation": np.array(json.dumps(dict(table.observation))),
        "notes": np.array(json.dumps(table.notes)),
    }
    parts = (("labels", table.labels), ("truth", table.truth), ("named", table.named))
    for name, matrix in parts:
        if matrix is not None and not (name == "truth" and matrix is table.labels):
            arrays[f"{name}_indptr"] = matrix.indptr.astype(np.int64)
            arrays[f"{name}_indices"] = matrix.indices.astype(np.int32)
            arrays[f"{name}_values"] = matrix.values
            arrays[f"{name}_shape"] = np.array([*matrix.shape, matrix.default])
    arrays["truth_is_labels"] = np.array(table.truth is table.labels)
    if table.split is not None:
        arrays["split"] = table.split
    if table.groups is not None:
        arrays["group"] = table.groups
    if table.hints is not None:
        arrays["hints"] = table.hints
    if table.texts is not None:
        texts = [text.encode() for text in table.texts]
        arrays["texts"] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        arrays["texts_ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    if (root := root_from(table, path)) is not None:
        arrays["root"] = np.array(root)
    if data.features is not None:
        arrays["x"] = np.asarray(data.features)
    with replacing(path) as part:
        with part.open("wb") as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)
        if sum(array.nbytes for array in arrays.values()) > unpacked_limit(part.stat().st_size):
            with part.open("wb") as out:  # compressed beyond the limit of the reader
                np.savez(out, allow_pickle=False, **arrays)


def _own(path: Path, arrays: Arrays, options: ReadOptions) -> Dataset:
    try:
        if str(arrays["plusone"]) != MARK:
            raise InputError(f"{path}: was written in the newer form {arrays['plusone']}")
        ids, classes = arrays["ids"], tuple(arrays["classes"].tolist())
        labels = _matrix(arrays, "labels")
        truth = labels if bool(arrays["truth_is_labels"]) else None
        if "truth_indptr" in arrays:
            truth = _matrix(arrays, "truth")
        named = _matrix(arrays, "named") if "named_indptr" in arrays else None
        observation = dict(parse_json(str(arrays["observation"])))
        notes = tuple(str(note) for note in parse_json(str(arrays["notes"])))
        split, groups = arrays.get("split"), arrays.get("group")
        hints = as_hints(arrays["hints"], str(path)) if "hints" in arrays else None
        if (
            ids.ndim != 1
            or arrays["classes"].ndim != 1
            or {ids.dtype.kind, arrays["classes"].dtype.kind} != {"U"}
            or (groups is not None and (groups.ndim != 1 or groups.dtype.kind != "U"))
            or not {len(ids)}
            >= {len(part) for part in (split, groups, arrays.get("x")) if part is not None}
        ):
            raise ValueError("arrays of different lengths")
        problems = Problems(path)
        root = (path.parent / str(arrays["root"])).resolve() if "root" in arrays else None
        check_ids(ids, problems)
        check_names(classes, problems)
        split = None if split is None else check_splits(split, problems)
        if groups is not None:
            check_groups(groups, problems)
        root, more = images_root(ids, root, options, problems)
        problems.raise_if_any()
        notes = (*notes, *more)
        texts = _texts(arrays) if "texts" in arrays else None
        table = LabelTable(
            ids, classes, labels, truth, split, root, observation, notes, groups, hints, named,
            texts,
        )  # fmt: skip
    except InputError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise InputError(f"{path}: is damaged ({error})") from None
    return Dataset(table, check_features(path, arrays.get("x")), path.stem)


def _texts(arrays: Arrays) -> tuple[str, ...]:
    ends, whole = arrays["texts_ends"].tolist(), arrays["texts"].tobytes()
    return tuple(whole[start:end].decode() for start, end in pairwise([0, *ends]))


def _matrix(arrays: Arrays, name: str) -> LabelMatrix:
    indptr = arrays[f"{name}_indptr"].astype(np.int64, copy=False)
    indices = arrays[f"{name}_indices"].astype(np.int32, copy=False)
    values = arrays[f"{name}_values"].astype(np.int8, copy=False)
    n, n_classes, default = (int(value) for value in arrays[f"{name}_shape"])
    sound = (
        indptr.shape == (n + 1,)
        and indices.ndim == values.ndim == 1
        and indptr[0] == 0
        and indptr[-1] == len(indices) == len(values)
        and (np.diff(indptr) >= 0).all()
        and (not len(indices) or (indices.min() >= 0 and indices.max() < n_classes))
        and bool(np.isin(values, (1, 0, -1)).all())
        and default in (0, -1)
    )
    if not sound:
        raise ValueError(f"{name} do not fit together")
    return LabelMatrix(csr_array((values, indices, indptr), shape=(n, n_classes)), default)


def load_arrays(path: Path, skip: Collection[str] = ()) -> Arrays:
    """All arrays of an npz file; `InputError` if it is damaged or holds pickled objects."""
    try:
        return load_npz(path, skip)
    except ValueError as error:
        raise InputError(f"{path}: is not a readable npz file ({error})") from None


def join_parts(path: Path, arrays: Arrays) -> Arrays:
    """The MULAN arrays, training and test part joined."""
    for one, other in (("xtr", "xte"), ("ytr", "yte")):
        for name in (one, other):
            if arrays[name].dtype.kind not in "biuf":
                raise InputError(f"{path}: {name} has type {arrays[name].dtype}, not numbers")
        if arrays[one].ndim != 2 or arrays[one].shape[1:] != arrays[other].shape[1:]:
            shapes = f"{arrays[one].shape} and {arrays[other].shape}"
            raise InputError(f"{path}: {one} and {other} have shapes {shapes}")
    kinds = (("train", len(arrays["ytr"])), ("test", len(arrays["yte"])))
    out: Arrays = {
        "x": np.concatenate([arrays["xtr"], arrays["xte"]]),
        "y": np.concatenate([arrays["ytr"], arrays["yte"]]),
        "ids": np.array([f"{kind}-{row:05d}" for kind, n in kinds for row in range(1, n + 1)]),
        "split": np.repeat([kind for kind, _ in kinds], [n for _, n in kinds]),
    }
    for key in ("labels", "classes"):
        if key in arrays:
            out["classes"] = arrays[key]
    return out


def from_arrays(path: Path, arrays: Arrays, options: ReadOptions) -> Dataset:
    """A data set from `y` or `labels` `[N, L]` and the optional arrays."""
    problems = Problems(path)
    key = "y" if "y" in arrays else "labels"
    y = arrays[key]
    if y.ndim != 2 or y.dtype.kind not in "biuf":
        raise InputError(
            f"{path}: {key} has shape {y.shape} and type {y.dtype}, not numbers [N, L]"
        )
    class_key = "labels" if key == "y" and "labels" in arrays else "classes"
    named = arrays.get(class_key, np.array([f"class-{c:03d}" for c in range(y.shape[1])]))
    id_key = next((name for name in ID_ARRAYS if name in arrays), "")
    ids = arrays.get(id_key, np.array([f"item-{row:05d}" for row in range(1, len(y) + 1)]))
    used = {key, class_key, id_key, "x", "split", "group"}
    shapes = {class_key: (named, y.shape[1]), id_key or "ids": (ids, len(y))}
    for name in ("split", "group", "x"):
        if name in arrays:
            shapes[name] = (arrays[name], len(y))
    for name, (array, count) in shapes.items():
        if array.shape[:1] != (count,) or array.ndim != (2 if name == "x" else 1):
            problems.add(f"{name} has shape {array.shape}, but {key} has shape {y.shape}")
    for row, column in np.argwhere(~np.isin(y, (1, 0, -1)))[:1000]:
        problems.add(f"{y[row, column]} in {key}[{row}, {column}] is not 1, 0 or -1")
    problems.raise_if_any()
    classes = tuple(str(name) for name in named)
    check_names(classes, problems)
    texts = as_texts(path, id_key or "ids", ids)
    check_ids(texts, problems)
    split = None
    if "split" in arrays:
        split = check_splits(as_texts(path, "split", arrays["split"]), problems)
    groups = None
    if "group" in arrays:
        groups = as_texts(path, "group", arrays["group"])
        check_groups(groups, problems)
    features = check_features(path, arrays.get("x"))
    root, _ = images_root(texts, None, options, problems)
    problems.raise_if_any()
    extra = sorted(arrays.keys() - used)
    notes: tuple[str, ...] = ()
    if extra:
        notes += (f"arrays that were not read: {', '.join(extra)}",)
    negative, several = bool((y == -1).any()), bool(((y == 1).sum(axis=1) > 1).any())
    if not negative:
        complete = "rows with several positives: the labels were taken as complete"
        single = "at most one positive a row: the labels were taken as seen, 0 as unobserved"
        notes += (f"only 0 and 1, {complete if several else single}",)
    states = LabelMatrix.from_dense(y, default=0 if negative or not several else -1)
    if negative and not (y == 0).any():
        states = states.with_default(-1)
    truth = states if states.default == -1 else None
    table = LabelTable(texts, classes, states, truth, split, root, notes=notes, groups=groups)
    return Dataset(table, features, path.stem)


def as_texts(path: Path, name: str, array: npt.NDArray[Any]) -> Strings:
    """An array of names or numbers as text; `InputError` for anything else."""
    try:
        if array.dtype.kind not in "USbiuf":
            raise ValueError(f"type {array.dtype}")
        return array.astype(np.str_)
    except ValueError as error:  # also bytes that are not ASCII
        raise InputError(f"{path}: {name} does not hold names ({error})") from None


def check_features(path: Path, x: npt.NDArray[Any] | None) -> npt.NDArray[np.floating[Any]] | None:
    """The features as float16 or float32; `InputError` for values that are not finite."""
    if x is None:
        return None
    if x.dtype.kind not in "biuf" or x.ndim < 2:
        raise InputError(
            f"{path}: x has shape {x.shape} and type {x.dtype}, not numbers [N, D] or more"
        )
    if 0 in x.shape[1:]:
        raise InputError(f"{path}: x has the shape {x.shape}, so there is nothing to learn from")
    x, row = as_floats(x)
    if row is not None:
        raise InputError(
            f"{path}: x has a NaN or infinite value in row {row}, or one too large for float32"
        )
    return x
