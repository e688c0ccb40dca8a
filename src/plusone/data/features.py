"""Feature files: `x` `[N, D]` or `[N, T, D]` and the `ids` (or `names`) of its rows.

They are npz files with both; npy files with `x` alone and a text file beside them with one id per
line, `NAME.ids.txt`, or `ids.txt` for all npy files of the folder; or parquet, arrow and Lance
files with a column of ids and a column of vectors, or a column for each feature. Large uncompressed
arrays are memory-mapped: see `plusone.data.lazy`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data._arrow import (
    ARROW,
    LANCE,
    PARQUET,
    floats,
    image_column,
    is_list,
    pyarrow,
    reading,
    schema_of,
    table_of,
    vectors,
)
from plusone.data.checks import as_floats, id_array, repeats
from plusone.data.formats.npz import as_texts, load_arrays
from plusone.data.images import without_suffix
from plusone.data.lazy import LARGE, LazyArray, joined, taken
from plusone.data.shards import named_files
from plusone.data.table import (
    ID_ARRAYS,
    ID_COLUMNS,
    LABEL_COLUMNS,
    OTHER_COLUMNS,
    LabelTable,
    Strings,
)
from plusone.errors import InputError
from plusone.io.arrays import Arrays, mapped_file, mapped_member
from plusone.io.files import replacing
from plusone.io.readers import LARGE_FILE, parse_json, read_text

Features = npt.NDArray[np.floating[Any]]
NPY = ".npy"
TABLES = (ARROW, *PARQUET, LANCE)
SUFFIXES = (".npz", NPY, *TABLES)
SHOWN = 5
MADE_BY = ("backbone", "size", "weights", "crops", "encoder")  # what of the metadata a run keeps

# Columns of a table that are no features, whatever their type.
NOT_FEATURES = {*ID_ARRAYS, *ID_COLUMNS, *LABEL_COLUMNS, *OTHER_COLUMNS, "index"}


@dataclass(frozen=True)
class FeatureFile:
    """Features of many items.

    Args:
        x: float16 or float32 `[N, D]` or `[N, T, D]`; lazy if it is large.
        meta: Metadata of the writer (backbone, preprocessing, ...); for several files, the entries
            that all of them share.
    """

    ids: Strings
    x: Features | LazyArray
    meta: Mapping[str, object]


def read_features(paths: Sequence[Path], ids: Strings | None = None) -> FeatureFile:
    """Reads and concatenates feature files.

    float16 stays float16. Large arrays are not loaded into memory.

    Args:
        paths: Files; a folder stands for all feature files in it, sorted, and a pattern
            (`x-*.npy`, `x-{00..09}.npy`) for those that match.
        ids: The ids of the rows, in order, where npy files have none.

    Raises:
        InputError: A file cannot be read, the files do not fit together, or a value is NaN or
            infinite (with file, row and id).
    """
    files: list[Path] = []
    for path in map(Path, paths):
        inside = named_files(path)
        if path.is_dir() and path.suffix.lower() != LANCE:
            inside = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        if not inside:
            raise InputError(f"{path}: has no npz file in it (nor npy, parquet, arrow or Lance)")
        files.extend(inside)
    if not files:
        raise InputError("no feature file was given")
    names: list[Strings | None] = []
    parts: list[Features] = []
    meta: dict[str, object] = {}
    for file in files:
        own_names, x, own = _read_one(file)
        if parts and x.shape[1:] != parts[0].shape[1:]:
            own_shape, first = (" x ".join(map(str, a.shape[1:])) for a in (x, parts[0]))
            raise InputError(f"{file}: has {own_shape} features per item, {files[0]} has {first}")
        meta = {k: v for k, v in own.items() if not parts or (k in meta and meta[k] == v)}
        names.append(own_names)
        parts.append(x)
    return FeatureFile(_all_ids(files, names, list(map(len, parts)), ids), joined(parts), meta)


def _all_ids(
    files: Sequence[Path],
    names: Sequence[Strings | None],
    counts: Sequence[int],
    ids: Strings | None,
) -> Strings:
    """The ids of all rows: those of each file, of `ids.txt` beside them, or the given ones."""
    own = [some for some in names if some is not None]
    if len(own) == len(names):
        return np.concatenate(own)
    bare = files[next(place for place, some in enumerate(names) if some is None)]
    beside = bare.parent / "ids.txt"
    if own:
        raise InputError(f"{bare}: has no names for its rows, but {len(own)} of the files have")
    if beside.is_file():
        ids = _ids_in(beside)
    if ids is None:
        raise InputError(
            f"{bare}: has no names for its rows; write the id of each item, one a line and in the "
            f"order of the rows, into {bare.with_suffix('.ids.txt')}"
        )
    if sum(counts) != len(ids):
        what = f"{beside} has {len(ids)} ids" if beside.is_file() else f"there are {len(ids)} items"
        where = f"{bare}: has" if len(files) == 1 else f"{bare} and {len(files) - 1} more: have"
        raise InputError(
            f"{where} {sum(counts)} rows of features, {what}; write the id of each row, one a "
            f"line, into {beside}"
        )
    return ids


def _load(file: Path) -> Arrays:
    """The arrays of a feature file, a large `x` mapped."""
    kind = file.suffix.lower()
    if not (file.is_file() or (kind == LANCE and file.is_dir())):
        raise InputError(f"{file}: no such file")
    try:
        if kind == NPY:
            beside = file.with_suffix(".ids.txt")
            ids = {"ids": _ids_in(beside)} if beside.is_file() else {}
            return {"x": mapped_file(file)} | ids
        if kind in TABLES:
            return _load_table(file)
        x = mapped_member(file, "x", LARGE)
        return load_arrays(file) if x is None else load_arrays(file, skip=("x",)) | {"x": x}
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise InputError(f"{file}: is not a readable {kind[1:]} file ({error})") from None


def _ids_in(beside: Path) -> Strings:
    try:
        text = read_text(beside, largest=LARGE_FILE, encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{beside}: is not UTF-8 text") from None
    except ValueError as error:
        raise InputError(f"{beside}: cannot be read ({error})") from None
    lines = text.replace("\r\n", "\n").removesuffix("\n")
    return id_array(lines.split("\n") if lines else (), beside)


def holds_features(file: Path) -> bool:
    """Whether a table is neither a label table nor has images in it."""
    try:
        schema = schema_of(file)
        pa = pyarrow(file)
    except InputError:
        return False
    labelled = any(name.lower() == "labels" for name in schema.names)
    return not labelled and image_column(pa, schema) is None


def _load_table(file: Path) -> Arrays:
    """The ids and vectors of a table: a column of lists, or a column for each feature."""
    schema = schema_of(file)
    lowered = {name.lower(): name for name in reversed(schema.names)}
    id_name = next((lowered[name] for name in (*ID_ARRAYS, *ID_COLUMNS) if name in lowered), None)
    if id_name is None:
        present = ", ".join(schema.names[:SHOWN])
        raise InputError(f"{file}: has no column of ids; name it id (found: {present})")
    with reading(file) as pa:
        features = feature_columns(pa, file, schema)
        table = table_of(file, [id_name, *features])
        ids = table.column(id_name).cast(pa.string())
        if ids.null_count:
            raise InputError(f"{file}: {ids.null_count} rows have no id")
        names = id_array(ids.to_pylist(), file)
        return {"ids": names, "x": columns_as_array(pa, file, table.select(features), names)}


def columns_as_array(
    pa: Any, source: object, table: Any, ids: Sequence[str] | Strings | None = None
) -> Features:
    """The column of vectors, or those of features, of a table that has no others."""
    if is_list(pa, table.schema.types[0]):
        return vectors(pa, source, table.column(0), ids)
    return np.stack([floats(column) for column in table.columns], axis=1)


def feature_columns(pa: Any, file: object, schema: Any) -> list[str]:
    """The column of vectors, beside which others are no features; or one for each feature."""
    fields = [
        field
        for field in schema
        if field.name.lower() not in NOT_FEATURES
        and not field.name.startswith("__index_level_")  # of pandas
    ]
    lists = [field.name for field in fields if is_list(pa, field.type)]
    if len(lists) > 1 or not fields:
        present = ", ".join(schema.names[:SHOWN])
        raise InputError(
            f"{file}: needs one column of vectors (lists of numbers), or a column for each "
            f"feature (found: {present})"
        )
    if lists:
        return lists
    for field in fields:
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
            raise InputError(
                f"{file}: column {field.name!r} has the type {field.type}, but a feature is a "
                "number; leave the column out, or write numbers into it"
            )
    return [field.name for field in fields]


def _read_one(file: Path) -> tuple[Strings | None, Features, dict[str, object]]:
    arrays = _load(file)
    key = next((name for name in ID_ARRAYS if name in arrays), None)
    if "x" not in arrays or (key is None and file.suffix.lower() != NPY):
        present = ", ".join(arrays) or "nothing"
        raise InputError(f"{file}: needs the arrays x and ids (or names), found {present}")
    x, ids = arrays.pop("x"), None if key is None else as_texts(file, key, arrays[key])
    shape: tuple[int, ...] = x.shape[:1] if ids is None else ids.shape
    if x.ndim not in (2, 3) or x.dtype.kind not in "fiub" or shape != (len(x),):
        raise InputError(
            f"{file}: x has shape {x.shape} and type {x.dtype}, {key or 'ids'} has shape {shape}; "
            "expected numbers [N, D] (or tokens [N, T, D]) and names [N]"
        )
    if 0 in x.shape[1:]:
        raise InputError(f"{file}: x has the shape {x.shape}, so there is nothing to learn from")
    x, row = as_floats(x)
    if row is not None:
        whose = "" if ids is None else f" of {str(ids[row])!r}"
        raise InputError(
            f"{file}, row {row}: the features{whose} have a NaN or infinite value, or one that is "
            "too large for float32"
        )
    try:
        meta = parse_json(str(arrays["meta"])) if "meta" in arrays else {}
    except ValueError:
        raise InputError(f"{file}: meta is not JSON") from None
    return ids, x, meta if isinstance(meta, dict) else {}


def write_features(path: Path, ids: Sequence[str] | Strings, x: Features, meta: object) -> None:
    """Writes features `[N, D]` or `[N, T, D]` as npz, atomically; `meta` is any JSON value."""
    names = np.asarray(ids, dtype=np.str_)
    if x.ndim not in (2, 3) or names.shape != (len(x),):
        raise ValueError(f"x has shape {x.shape} for {names.shape} ids")
    with replacing(path) as part, part.open("wb") as out:
        np.savez(out, allow_pickle=False, x=x, ids=names, meta=np.array(json.dumps(meta)))


def align(features: FeatureFile, table: LabelTable) -> Features | LazyArray:
    """The features of the items of a table, float16 or float32 `[len(table), ...]`.

    Large features in another order than the table are not copied: the result is lazy.

    An item is matched to the row with the same id, else to the row with the same file name, else
    to the row with the same file name without its suffix, if that is a known one. If both names
    contain folders, these must agree: `1.jpg` matches `dog/1.jpg`, but `cat/1.jpg` does not.
    """
    if np.array_equal(features.ids, table.ids) and not repeats(table.ids):
        return features.x
    rows = match_ids(features.ids, table.ids, "features")
    _refuse(table.ids[rows < 0], "items have no features")
    if len(rows) == len(features.ids) and (rows == np.arange(len(rows))).all():
        return features.x
    return taken(features.x, rows)


def match_ids(names: Strings, ids: Strings, what: str) -> npt.NDArray[np.int64]:
    """The row with the name of each item, as in `align`, int64 `[N]`; -1 where there is none."""
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
    return without_suffix(_file_name(name))


def matched_loosely(names: Strings, ids: Strings, what: str) -> tuple[str, ...]:
    """A note on how many items were matched by less than their whole id, if any were."""
    count = int((~np.isin(ids, names)).sum())
    return (f"{count} items were matched to {what} by the name of their file",) if count else ()
