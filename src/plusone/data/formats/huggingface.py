"""Hugging Face: arrow and parquet files with a column of images, as `datasets` writes them.

The labels are a class, a list of classes, or names (`|` between several) in a column such as
`label` or `labels`; numbers have the names that `datasets` stored in the file. `negatives`,
`truth`, `split` and `group` are as in the long form. Needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data import _arrow
from plusone.data.checks import check_groups, check_ids, id_array, name_fault, split_name
from plusone.data.dataset import Dataset
from plusone.data.formats._longform import ClassCodes, assemble
from plusone.data.formats.base import ReadOptions
from plusone.data.formats.parquet import name_lists, texts
from plusone.data.formats.shards import Sharded, ShardProblems
from plusone.data.shards import TAR, shards_of
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.readers import parse_json

META = b"huggingface"
LABELS = ("labels", "label", "tags", "classes", "class", "categories", "category")
OTHERS = ("negatives", "truth", "split", "group")


def detects(path: Path) -> bool:
    """A folder that `datasets` saved, or parquet files with images: a file, a folder, a pattern."""
    shards = shards_of(path)
    return bool(shards) and shards[0].suffix.lower() != TAR


def read_huggingface(path: Path, options: ReadOptions) -> Dataset:
    """Reads the labels of all rows; ids are the file and the name or number of the row."""
    images = Sharded.find(path)
    if images is None or images.shards[0].suffix.lower() == TAR:
        raise InputError(f"{path}: has no arrow files, and no parquet files with images, in it")
    pa = _arrow.pyarrow(path)
    try:
        return _read(pa, path, images, options)
    except UnicodeDecodeError:
        raise InputError(f"{path}: has text in it that is not UTF-8") from None
    except (pa.ArrowException, KeyError) as error:  # also two columns of one name
        raise _arrow.damaged(images.shards[0], error) from None


def _read(pa: Any, path: Path, images: Sharded, options: ReadOptions) -> Dataset:
    ids = images.ids()
    if not ids:
        raise InputError(f"{path}: has no rows")
    problems = ShardProblems(path, images.root, ids)
    first = _arrow.schema_of(images.shards[0])
    if _arrow.image_column(pa, first) is None:
        present = ", ".join(first.names)
        raise InputError(f"{images.shards[0]}: has no column of images (found: {present})")
    label = _label_column(pa, images.shards[0], first)
    lowered = {name.lower(): name for name in reversed(first.names)}
    columns = {"labels": label} | {name: lowered[name] for name in OTHERS if name in lowered}
    parts = [_part(pa, shard, columns, first) for shard in images.shards]
    arrow = pa.concat_tables(parts)
    if len(arrow) != len(ids):
        raise InputError(f"{path}: has {len(arrow)} rows of labels for {len(ids)} images")
    features = _features(first, images.shards[0])
    stored = {name: _class_names(features.get(column)) for name, column in columns.items()}
    codes = ClassCodes(options.classes or stored["labels"], problems)
    lists = {
        name: name_lists(pa, _named(pa, arrow.column(name), stored[name], problems), name, codes)
        for name in ("labels", "negatives", "truth")
        if name in columns
    }
    lines = range(1, len(ids) + 1)
    split = images.splits()
    if "split" in columns:
        words = _words(pa, arrow.column("split"), stored["split"], "split", problems)
        split = [split_name(word) or "" for word in words]
        for row, name in enumerate(split, 1):
            if not name:
                problems.add(f"split {words[row - 1]!r} is not train, val or test", row=row)
    groups = None
    if "group" in columns:
        words = _words(pa, arrow.column("group"), stored["group"], "group", problems)
        groups = id_array(words, path, "groups")
        check_groups(groups, problems, lines)
    id_names = id_array(ids, path)
    check_ids(id_names, problems, lines)
    classes, labels, truth = assemble(
        codes,
        lists["labels"][0],
        lists["negatives"][0] if "negatives" in lists else None,
        lists["negatives"][1] if "negatives" in lists else np.zeros(0, np.int64),
        lists["truth"][0] if "truth" in lists else None,
        lines,
    )
    if not classes:
        raise InputError(f"{path}: no row has a class in {label!r}")
    table = LabelTable(
        id_names,
        classes,
        labels,
        truth,
        None if split is None else np.asarray(split, dtype="<U5"),
        images.root,
        notes=(f"labels from the column {label!r}",),
        groups=groups,
    )
    return Dataset(table, name=images.name(path))


def _label_column(pa: Any, shard: Path, schema: Any) -> str:
    """The column with the labels: by its name, else the only one with names of classes."""
    lowered = {name.lower(): name for name in reversed(schema.names)}
    named = [lowered[name] for name in LABELS if name in lowered]
    if not named:
        features = _features(schema, shard)
        named = [name for name in schema.names if _class_names(features.get(name)) is not None]
    if not named or (len(named) > 1 and named[0].lower() not in LABELS):
        present = ", ".join(schema.names)
        raise InputError(
            f"{shard}: has no column of labels; name it one of {', '.join(LABELS)} (found: "
            f"{present})"
        )
    return str(named[0])


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


def _class_names(feature: Any) -> tuple[str, ...] | None:
    """The names of the classes that the numbers of a column mean; None if it has none."""
    while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        feature = feature["feature"]  # of a list
    if isinstance(feature, list) and len(feature) == 1:  # the older form of a list
        feature = feature[0]
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    names = feature.get("names")
    if (
        not isinstance(names, list)
        or len(set(map(str, names))) < len(names)
        or any(not isinstance(name, str) or name_fault(name) for name in names)
    ):
        return None
    return tuple(names)


def _named(pa: Any, column: Any, names: Sequence[str] | None, problems: ShardProblems) -> Any:
    """A column of classes as lists of their names; -1 and null are no class."""
    types, pc = pa.types, pa.compute
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], kind)
    if types.is_string(kind) or types.is_large_string(kind):
        cells = [
            [part.strip() for part in (cell or "").split("|") if part.strip()]
            for cell in column.to_pylist()
        ]
        return pa.chunked_array([pa.array(cells, pa.list_(pa.string()))])
    if types.is_integer(kind):
        column = column.cast(pa.int64())
        given = pc.and_kleene(column.is_valid(), pc.not_equal(column, -1)).fill_null(False)
        counts = np.asarray(given, dtype=np.int32)
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        column = pa.ListArray.from_arrays(offsets, column.filter(given))
    inner = getattr(column.type, "value_type", None)
    if names is None or inner is None or not types.is_integer(inner):
        return pa.chunked_array([column])
    counts = np.asarray(column.value_lengths().fill_null(0), dtype=np.int32)
    flat = column.flatten()
    numbers = np.asarray(flat.fill_null(-1), dtype=np.int64)
    rows = np.repeat(np.arange(len(counts)), counts)
    for hit in np.flatnonzero((numbers < 0) | (numbers >= len(names)))[:1000].tolist():
        problems.add(
            f"class number {flat[hit].as_py()} is none of the {len(names)} classes of the file, "
            "which are numbered from 0",
            row=int(rows[hit]) + 1,
        )
    problems.raise_if_any()
    texts = pa.array(list(names), pa.string()).take(pa.array(numbers))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return pa.chunked_array([pa.ListArray.from_arrays(offsets, texts)])


def _words(
    pa: Any, column: Any, names: Sequence[str] | None, what: str, problems: ShardProblems
) -> list[str]:
    """A column of texts, or of numbers with names."""
    if names is not None:
        lists = _named(pa, column, names, problems)
        return ["|".join(cell) for cell in lists.to_pylist()]
    words: list[str] = texts(pa, column, what, problems).tolist()
    return words
