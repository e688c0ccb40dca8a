"""Feature files: `x` `[N, D]` or `[N, T, D]` and the `ids` (or `names`) of its rows.

They are npz files with both, or npy files with `x` alone and a text file `NAME.ids.txt` beside
them with one id per line. Large uncompressed arrays are memory-mapped: see `plusone.data.lazy`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.checks import id_array, repeats, row_not_finite
from plusone.data.formats.npz import as_texts, load_arrays
from plusone.data.lazy import LARGE, LazyArray, joined, taken
from plusone.data.table import LabelTable, Strings
from plusone.errors import InputError
from plusone.io.arrays import Arrays, mapped_file, mapped_member
from plusone.io.files import replacing
from plusone.io.readers import LARGE_FILE, parse_json, read_text

Features = npt.NDArray[np.floating[Any]]
ID_KEYS = ("ids", "names")
SUFFIXES = (".npz", ".npy")
SHOWN = 5


@dataclass(frozen=True)
class FeatureFile:
    """Features of many items.

    Args:
        ids: `[N]`.
        x: float16 or float32 `[N, D]` or `[N, T, D]`; lazy if it is large.
        meta: Metadata of the writer (backbone, preprocessing, ...); for several files, the entries
            that all of them share.
    """

    ids: Strings
    x: Features | LazyArray
    meta: Mapping[str, object]


def read_features(paths: Sequence[Path]) -> FeatureFile:
    """Reads and concatenates feature files.

    float16 stays float16. Large arrays are not loaded into memory.

    Args:
        paths: Files; a folder stands for all npz and npy files in it, sorted.

    Raises:
        InputError: A file cannot be read, the files do not fit together, or a value is NaN or
            infinite (with file, row and id).
    """
    files: list[Path] = []
    for path in map(Path, paths):
        inside = [path]
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        if not inside:
            raise InputError(f"{path}: has no npz file in it (nor npy)")
        files.extend(inside)
    if not files:
        raise InputError("no feature file was given")
    ids: list[Strings] = []
    parts: list[Features] = []
    meta: dict[str, object] = {}
    for file in files:
        names, x, own = _read_one(file)
        if parts and x.shape[1:] != parts[0].shape[1:]:
            own_shape, first = (" x ".join(map(str, a.shape[1:])) for a in (x, parts[0]))
            raise InputError(f"{file}: has {own_shape} features per item, {files[0]} has {first}")
        meta = {k: v for k, v in own.items() if not parts or (k in meta and meta[k] == v)}
        ids.append(names)
        parts.append(x)
    return FeatureFile(np.concatenate(ids), joined(parts), meta)


def _load(file: Path) -> Arrays:
    """The arrays of a feature file, a large `x` mapped."""
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    try:
        if file.suffix == ".npy":
            return {"x": mapped_file(file), "ids": _listed_ids(file)}
        x = mapped_member(file, "x", LARGE)
        return load_arrays(file) if x is None else load_arrays(file, skip=("x",)) | {"x": x}
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise InputError(f"{file}: is not a readable npy file ({error})") from None


def _listed_ids(file: Path) -> Strings:
    """The ids of the rows of an npy file, from the text file beside it, one per line."""
    beside = file.with_suffix(".ids.txt")
    if not beside.is_file():
        raise InputError(
            f"{file}: has no names for its rows; write the id of each item, one a line and in the "
            f"order of the rows, into {beside}"
        )
    try:
        text = read_text(beside, largest=LARGE_FILE, encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{beside}: is not UTF-8 text") from None
    except ValueError as error:
        raise InputError(f"{beside}: cannot be read ({error})") from None
    lines = text.replace("\r\n", "\n").removesuffix("\n")
    return id_array(lines.split("\n") if lines else (), beside)


def _read_one(file: Path) -> tuple[Strings, Features, dict[str, object]]:
    arrays = _load(file)
    key = next((name for name in ID_KEYS if name in arrays), None)
    if key is None or "x" not in arrays:
        present = ", ".join(arrays) or "nothing"
        raise InputError(f"{file}: needs the arrays x and ids (or names), found {present}")
    x, ids = arrays.pop("x"), as_texts(file, key, arrays[key])
    if x.ndim not in (2, 3) or x.dtype.kind not in "fiub" or ids.shape != (len(x),):
        raise InputError(
            f"{file}: x has shape {x.shape} and type {x.dtype}, {key} has shape {ids.shape}; "
            "expected numbers [N, D] (or tokens [N, T, D]) and names [N]"
        )
    if 0 in x.shape[1:]:
        raise InputError(f"{file}: x has the shape {x.shape}, so there is nothing to learn from")
    if x.dtype not in (np.float16, np.float32):
        with np.errstate(over="ignore"):  # infinite then, and reported
            x = x.astype(np.float32)
    row = row_not_finite(x)
    if row is not None:
        raise InputError(
            f"{file}, row {row}: the features of {str(ids[row])!r} have a NaN or infinite value, "
            "or one that is too large for float32"
        )
    try:
        meta = parse_json(str(arrays["meta"])) if "meta" in arrays else {}
    except ValueError:
        raise InputError(f"{file}: meta is not JSON") from None
    return ids, x, meta if isinstance(meta, dict) else {}


def write_features(path: Path, ids: Sequence[str] | Strings, x: Features, meta: object) -> None:
    """Writes a feature file atomically.

    Args:
        path: An npz file.
        ids: `[N]`.
        x: float16 or float32 `[N, D]` or `[N, T, D]`.
        meta: Any JSON value, usually a dict.
    """
    names = np.asarray(ids, dtype=np.str_)
    if x.ndim not in (2, 3) or names.shape != (len(x),):
        raise ValueError(f"x has shape {x.shape} for {names.shape} ids")
    with replacing(path) as part, part.open("wb") as out:
        np.savez(out, allow_pickle=False, x=x, ids=names, meta=np.array(json.dumps(meta)))


def align(features: FeatureFile, table: LabelTable) -> Features | LazyArray:
    """The features of the items of a table, float16 or float32 `[len(table), ...]`.

    Large features in another order than the table are not copied: the result is lazy.

    An item is matched to the row with the same id, else to the row with the same file name, else
    to the row with the same file name without its suffix. If both names contain folders, these
    must agree: `1.jpg` matches `dog/1.jpg`, but `cat/1.jpg` does not.

    Raises:
        InputError: An item matches no row, or several.
    """
    if np.array_equal(features.ids, table.ids) and not repeats(table.ids):
        return features.x
    rows = match_ids(features.ids, table.ids, "features")
    _refuse(table.ids[rows < 0], "items have no features")
    if len(rows) == len(features.ids) and (rows == np.arange(len(rows))).all():
        return features.x
    return taken(features.x, rows)


def match_ids(names: Strings, ids: Strings, what: str) -> npt.NDArray[np.int64]:
    """The row with the name of each item, as in `align`, int64 `[N]`; -1 where there is none.

    Args:
        names: Names of the rows of a file.
        ids: Ids of the items.
        what: What the file holds, for messages.

    Raises:
        InputError: An item matches several rows, or a row several items.
    """
    rows = np.full(len(ids), -1, dtype=np.int64)
    exact = doubtful = np.zeros(len(ids), dtype=bool)
    for key in (str, _file_name, _stem):
        open_rows = np.flatnonzero((rows < 0) & ~doubtful)
        if not len(open_rows):
            break
        have, want = _keys(names, key), _keys(ids[open_rows], key)
        order = np.argsort(have, kind="stable")
        first = np.searchsorted(have, want, side="left", sorter=order)
        last = np.searchsorted(have, want, side="right", sorter=order)
        rows[open_rows[last - first == 1]] = order[first[last - first == 1]]
        doubtful[open_rows[last - first > 1]] = True
        if key is str:
            exact = rows >= 0
    for item in np.flatnonzero((rows >= 0) & ~exact).tolist():
        if not _same_folders(str(ids[item]), str(names[rows[item]])):
            rows[item] = -1
    _refuse(ids[doubtful], f"items fit several rows of the {what}")
    matched = np.flatnonzero(rows >= 0)
    if (shared := [row for row, _ in repeats(rows[matched])]) != []:
        _refuse(ids[matched[shared]], f"items fit a row of the {what} that fits another item too")
    return rows


def _refuse(ids: Strings, what: str) -> None:
    if len(ids):
        shown = ", ".join(ids[:SHOWN].tolist()) + (", ..." if len(ids) > SHOWN else "")
        raise InputError(f"{len(ids)} {what}: {shown}")


def _keys(ids: Strings, key: Any) -> Strings:
    return ids if key is str else np.asarray([key(name) for name in ids.tolist()], dtype=np.str_)


def _same_folders(one: str, other: str) -> bool:
    """Whether the folders of two names agree, compared up to the length of the shorter one."""
    first, second = one.split("/")[-2::-1], other.split("/")[-2::-1]
    return all(a == b for a, b in zip(first, second, strict=False))


def _file_name(name: str) -> str:
    return name.rpartition("/")[2]


def _stem(name: str) -> str:
    file = _file_name(name)
    return file.rpartition(".")[0] or file
