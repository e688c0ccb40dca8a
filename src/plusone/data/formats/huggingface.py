"""Hugging Face: arrow and parquet files with a column of images, as `datasets` writes them.

The labels are a class, a list of classes, or names (`|` between several) in a column such as
`label` or `labels`; numbers have the names that `datasets` stored in the file. `negatives`,
`truth`, `split` and `group` are as in the long form. Needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data import _arrow
from plusone.data.checks import check_names
from plusone.data.dataset import Dataset
from plusone.data.formats._longform import ClassCodes
from plusone.data.formats._sharded import Sharded, ShardProblems, shard_table
from plusone.data.formats.base import ReadOptions
from plusone.data.formats.csv_text import split_names
from plusone.data.formats.parquet import name_lists, texts
from plusone.data.shards import TAR, shards_of
from plusone.data.table import LABEL_COLUMNS, OTHER_COLUMNS
from plusone.errors import InputError, Problems
from plusone.io.readers import parse_json

META = b"huggingface"


def detects(path: Path) -> bool:
    """A folder that `datasets` saved, or parquet files with images: a file, a folder, a pattern."""
    shards = shards_of(path)
    return bool(shards) and shards[0].suffix.lower() != TAR


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads the labels of all rows; ids are the file and the name or number of the row."""
    images = Sharded.find(path)
    if images is None or images.shards[0].suffix.lower() == TAR:
        raise InputError(f"{path}: has no arrow files, and no parquet files with images, in it")
    with _arrow.reading(path) as pa:
        return _read(pa, path, images, options)


def _read(pa: Any, path: Path, images: Sharded, options: ReadOptions) -> Dataset:
    ids = images.ids()
    if not ids:
        raise InputError(f"{path}: has no rows")
    problems = ShardProblems(path, images.root, ids)
    shard = images.shards[0]
    first = _arrow.schema_of(shard)
    features = _features(first, shard)
    label = _label_column(shard, first, features)
    lowered = {name.lower(): name for name in reversed(first.names)}
    columns = {"labels": label} | {name: lowered[name] for name in OTHER_COLUMNS if name in lowered}
    arrow = pa.concat_tables([_part(pa, one, columns, first) for one in images.shards])
    if len(arrow) != len(ids):
        raise InputError(f"{path}: has {len(arrow)} rows of labels for {len(ids)} images")
    stored = {name: _class_names(features, column, shard) for name, column in columns.items()}
    codes = ClassCodes(options.classes or stored["labels"], problems)
    lists, words = {}, {}
    for name, called in columns.items():
        if name in ("split", "group"):
            words[name] = _words(pa, arrow.column(name), stored[name], called, problems)
        else:
            cells = _named(pa, arrow.column(name), stored[name], problems)
            lists[name] = name_lists(pa, cells, name, called, codes)
    notes = (f"labels from the column {label!r}",)
    table = shard_table(images, codes, lists, words, problems, notes)
    return Dataset(table, name=images.name(path))


def _label_column(shard: Path, schema: Any, features: Mapping[str, Any]) -> str:
    """The column with the labels: by its name, else the only one with names of classes."""
    lowered = {name.lower(): name for name in reversed(schema.names)}
    named = [lowered[name] for name in LABEL_COLUMNS if name in lowered]
    with_names = [name for name in schema.names if _class_label(features.get(name)) is not None]
    if not named and len(with_names) != 1:
        raise InputError(
            f"{shard}: has no column of labels; name it one of {', '.join(LABEL_COLUMNS)} (found: "
            f"{', '.join(schema.names)})"
        )
    return str((named or with_names)[0])


def _part(pa: Any, shard: Path, columns: dict[str, str], first: Any) -> Any:
    """The columns of one shard, with the types of the first."""
    schema = _arrow.schema_of(shard)
    missing = [name for name in columns.values() if name not in schema.names]
    if missing:
        raise InputError(f"{shard}: has no column {missing[0]!r}, which the first shard has")
    for name in columns.values():
        if schema.field(name).type != first.field(name).type:
            raise InputError(
                f"{shard}: column {name!r} has the type {schema.field(name).type}, in the first "
                f"shard {first.field(name).type}"
            )
    table = _arrow.table_of(shard, list(dict.fromkeys(columns.values())))
    return pa.table({key: table.column(name) for key, name in columns.items()})


def _features(schema: Any, shard: Path) -> dict[str, Any]:
    """What `datasets` says about the columns; nothing for files from elsewhere."""
    try:
        content = parse_json((schema.metadata or {}).get(META, b"{}"))
        features = content["info"]["features"] if content else {}
        return dict(features)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{shard}: its metadata is not that of datasets ({error})") from None


def _class_label(feature: Any) -> Any:
    """What `datasets` says about the classes of a column; None if it has no names of classes."""
    while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        feature = feature["feature"]  # of a list
    if isinstance(feature, list) and len(feature) == 1:  # the older form of a list
        feature = feature[0]
    is_label = isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    return feature if is_label else None


def _class_names(features: Mapping[str, Any], column: str, shard: Path) -> tuple[str, ...] | None:
    """The names of the classes that the numbers of a column mean; None if it has none."""
    feature = _class_label(features.get(column))
    if feature is None:
        return None
    names = feature.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{shard}: the classes of column {column!r} have no list of names")
    problems = Problems(f"{shard}, names of column {column!r}")
    check_names(tuple(names), problems)
    problems.raise_if_any()
    return tuple(names)


def _named(pa: Any, column: Any, names: Sequence[str] | None, problems: ShardProblems) -> Any:
    """A column of classes as lists of their names; -1 and null are no class."""
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    column = column.combine_chunks()
    if types.is_string(column.type) or types.is_large_string(column.type):
        cells = [split_names(cell or "") for cell in column.to_pylist()]
        return pa.chunked_array([pa.array(cells, pa.list_(pa.string()))])
    if types.is_integer(column.type):
        offsets = pa.array(np.arange(len(column) + 1, dtype=np.int32))
        column = pa.ListArray.from_arrays(offsets, column)
    inner = getattr(column.type, "value_type", None)
    if inner is None or not types.is_integer(inner):
        return pa.chunked_array([column])
    counts = np.asarray(pa.compute.list_value_length(column).fill_null(0), dtype=np.int64)
    numbers = np.asarray(column.flatten().cast(pa.int64()).fill_null(-1))
    rows = np.repeat(np.arange(len(counts)), counts)[numbers != -1]
    numbers = numbers[numbers != -1]
    classes = pa.array(numbers).cast(pa.string())
    if names is not None:
        for hit in np.flatnonzero((numbers < 0) | (numbers >= len(names)))[:1000].tolist():
            problems.add(
                f"class number {numbers[hit]} is none of the {len(names)} classes of the file, "
                "which are numbered from 0",
                row=int(rows[hit]) + 1,
            )
        problems.raise_if_any()
        classes = pa.array(list(names), pa.string()).take(pa.array(numbers))
    ends = np.cumsum(np.bincount(rows, minlength=len(counts)))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    return pa.chunked_array([pa.ListArray.from_arrays(offsets, classes)])


def _words(
    pa: Any, column: Any, names: Sequence[str] | None, called: str, problems: ShardProblems
) -> list[str]:
    """A column of texts, or of numbers with names."""
    if names is not None:
        lists = _named(pa, column, names, problems)
        return ["|".join(cell) for cell in lists.to_pylist()]
    words: list[str] = texts(pa, column, called, problems).tolist()
    return words
