"""npz: this package's own form (everything in a `LabelTable`), and arrays made elsewhere.

Arrays made elsewhere: `y` or `labels` `[N, L]` with optional `x`, `ids`, `classes`, `split`; or
the MULAN arrays `xtr ytr xte yte labels`. Pickled objects are never loaded.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from plusone.data.dataset import Dataset
from plusone.data.formats.base import ReadOptions, root_from
from plusone.data.formats.checks import check_ids, images_root
from plusone.data.formats.npz_arrays import (
    Arrays,
    check_features,
    check_names,
    check_splits,
    from_arrays,
    join_parts,
    load_arrays,
)
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems
from plusone.io.files import replacing
from plusone.io.readers import parse_json, unpacked_limit

MARK = "plusone-labels-1"


def detects(path: Path) -> bool:
    """A file that ends in `.npz`."""
    return path.is_file() and path.suffix.lower() == ".npz"


def read_npz(path: Path, options: ReadOptions) -> Dataset:
    """Reads the file; which kind it is shows in the names of its arrays."""
    arrays = load_arrays(path)
    if "plusone" in arrays:
        return _own(path, arrays, options)
    if {"xtr", "ytr", "xte", "yte"} <= arrays.keys():
        return from_arrays(path, join_parts(path, arrays), options)
    if "y" in arrays or ("labels" in arrays and arrays["labels"].ndim == 2):
        return from_arrays(path, arrays, options)
    found = ", ".join(arrays) or "nothing"
    hint = "; it holds features, which go with a label file" if "x" in arrays else ""
    raise InputError(
        f"{path}: has no labels in it: expected 'y' or 'labels' [N, L], found {found}{hint}"
    )


def write_npz(data: Dataset, path: Path) -> None:
    """Writes everything in the data set."""
    table = data.table
    arrays: Arrays = {
        "plusone": np.array(MARK),
        "ids": table.ids,
        "classes": np.asarray(table.classes, dtype=np.str_),
        "observation": np.array(json.dumps(dict(table.observation))),
        "notes": np.array(json.dumps(table.notes)),
    }
    for name, matrix in (("labels", table.labels), ("truth", table.truth)):
        if matrix is not None and not (name == "truth" and matrix is table.labels):
            arrays[f"{name}_indptr"] = matrix.indptr.astype(np.int64)
            arrays[f"{name}_indices"] = matrix.indices.astype(np.int32)
            arrays[f"{name}_values"] = matrix.values
            arrays[f"{name}_shape"] = np.array([*matrix.shape, matrix.default])
    arrays["truth_is_labels"] = np.array(table.truth is table.labels)
    if table.split is not None:
        arrays["split"] = table.split
    if (root := root_from(table, path)) is not None:
        arrays["root"] = np.array(root)
    if data.features is not None:
        arrays["x"] = np.asarray(data.features)
    with replacing(path) as part:
        with part.open("wb") as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)
        if sum(array.nbytes for array in arrays.values()) > unpacked_limit(part.stat().st_size):
            with part.open("wb") as out:  # packed so well that no reader would trust it
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
        observation = dict(parse_json(str(arrays["observation"])))
        notes = tuple(str(note) for note in parse_json(str(arrays["notes"])))
        split = arrays.get("split")
        if (
            ids.ndim != 1
            or arrays["classes"].ndim != 1
            or {ids.dtype.kind, arrays["classes"].dtype.kind} != {"U"}
            or not {len(ids)}
            >= {len(part) for part in (split, arrays.get("x")) if part is not None}
        ):
            raise ValueError("arrays of different lengths")
        problems = Problems(path)
        root = options.images
        if root is None and "root" in arrays:
            root = (path.parent / str(arrays["root"])).resolve()
        check_ids(ids, problems)
        check_names(classes, problems)
        split = None if split is None else check_splits(split, problems)
        root, more = images_root(
            ids,
            root,
            problems,
            check=options.check_images,
            required=options.images is not None,
        )
        problems.raise_if_any()
        table = LabelTable(ids, classes, labels, truth, split, root, observation, (*notes, *more))
    except InputError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise InputError(f"{path}: is damaged ({error})") from None
    return Dataset(table, check_features(path, arrays.get("x")), path.stem)


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
