"""Parquet in long form: `labels`, `negatives`, `truth`, `named`; `id`, `text`, `split`, `group`.

Needs pyarrow. The ordered classes, the observation, the notes and the image folder are stored in
the file's metadata. Files from elsewhere need no metadata: their classes are the names that occur,
sorted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data._arrow import PARQUET, has_images, pyarrow, reading, schema_of, table_of
from plusone.data.checks import (
    check_groups,
    check_ids,
    check_splits,
    id_array,
    name_fault,
)
from plusone.data.dataset import Dataset
from plusone.data.formats._longform import ALL_OTHERS, ClassCodes, Lists, assemble, columns_of
from plusone.data.formats.base import ReadOptions, images_root, root_from, root_of
from plusone.data.formats.csv_text import as_text, split_names
from plusone.data.matrix import LabelMatrix
from plusone.data.table import ID_COLUMNS, OTHER_COLUMNS, TEXT, LabelTable, Strings, item_columns
from plusone.errors import InputError, Problems
from plusone.io.files import replacing
from plusone.io.readers import parse_json

META = b"plusone"
COLUMNS = {*ID_COLUMNS, "labels", *OTHER_COLUMNS, TEXT}  # in lower case


def detects(path: Path) -> bool:
    """A file that ends in `.parquet` or `.pq` and has no column of images."""
    named = path.is_file() and path.suffix.lower() in PARQUET
    return named and not has_images(path)


def write(data: Dataset, path: Path) -> None:
    """Writes the table; every class name except `*` is allowed."""
    pa = pyarrow(path)
    table = data.table
    if ALL_OTHERS in table.classes:
        raise InputError(f"{path}: class '*' cannot be written in long form; write npz instead")
    columns = columns_of(table)
    names = pa.array(table.classes, pa.string())

    def lists(matrix: LabelMatrix) -> Any:
        part = matrix.only_positives()
        flat = names.take(pa.array(part.indices))
        return pa.ListArray.from_arrays(pa.array(part.indptr.astype(np.int32)), flat)

    out = {"id": pa.array(table.ids.tolist(), pa.string()), "labels": lists(table.labels)}
    if columns.starred:
        stars = pa.array([ALL_OTHERS] * len(table))
        out["negatives"] = pa.ListArray.from_arrays(
            pa.array(np.arange(len(table) + 1, dtype=np.int32)), stars
        )
    elif columns.negatives is not None:
        out["negatives"] = lists(columns.negatives)
    if columns.truth is not None:
        out["truth"] = lists(columns.truth)
    if table.named is not None:
        out["named"] = lists(table.named)
    if table.split is not None:
        out["split"] = pa.array(table.split.tolist(), pa.string())
    if table.groups is not None:
        out["group"] = pa.array(table.groups.tolist(), pa.string())
    if table.texts is not None:
        out[TEXT] = pa.array(table.texts, pa.large_string())
    meta = {
        "classes": table.classes,
        "default": table.labels.default,
        "observation": dict(table.observation),
        "notes": table.notes,
        "root": root_from(table, path),
    }
    arrow = pa.table(out).replace_schema_metadata({META: json.dumps(meta).encode()})
    with replacing(path) as part:
        pa.parquet.write_table(arrow, part, compression="zstd")


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads the file; problems name the row, counted from 1."""
    with reading(path) as pa:
        return _read(pa, path, options)


def _read(pa: Any, path: Path, options: ReadOptions) -> Dataset:
    names = schema_of(path).names
    arrow = table_of(path, [name for name in names if name.lower() in COLUMNS])
    return of_table(pa, arrow, path, names, options)


def of_table(
    pa: Any, arrow: Any, path: Path, names: Sequence[str], options: ReadOptions
) -> Dataset:
    """The data of a table with columns among `COLUMNS`; `names` are those of all its columns."""
    meta = _Meta.of(parse_json((arrow.schema.metadata or {}).get(META, b"{}")))
    problems = Problems(path)
    lowered = {name.lower(): name for name in reversed(arrow.column_names)}
    id_name, text_name = item_columns(arrow.column_names)
    if (id_name is None and text_name is None) or "labels" not in lowered:
        present = ", ".join(names)
        raise InputError(
            f"{path}: needs the columns id and labels, or text and labels (found: {present})"
        )
    ids, own_texts = items_of(pa, arrow, id_name, text_name, problems)
    lines = range(1, len(ids) + 1)
    class_list = options.classes or meta.classes
    codes = ClassCodes(class_list, problems)
    lists = {
        name: name_lists(pa, arrow.column(lowered[name]), name, lowered[name], codes)
        for name in ("labels", "negatives", "truth", "named")
        if name in lowered
    }
    split = groups = None
    if "split" in lowered:
        words = texts(pa, arrow.column(lowered["split"]), "split", problems)
        split = check_splits(words, problems, lines)
    if "group" in lowered:
        groups = texts(pa, arrow.column(lowered["group"]), "group", problems)
        check_groups(groups, problems, lines)
    del arrow
    check_ids(ids, problems, lines)
    usual = None if own_texts is not None else root_of(ids, path, meta.root)
    root, notes = images_root(ids, usual, options, problems, lines)
    classes, labels, truth, named = assemble(codes, lists, lines)
    if meta.default is not None:
        labels = labels.with_default(meta.default)
    notes = (*meta.notes, *notes)
    table = LabelTable(
        ids,
        classes,
        labels,
        truth,
        split,
        root,
        meta.observation,
        notes,
        groups,
        named=named,
        texts=own_texts,
    )
    return Dataset(table, name=path.stem)


@dataclass(frozen=True)
class _Meta:
    """The metadata that plusone stores in a file; files from elsewhere have none."""

    classes: tuple[str, ...] | None
    default: int | None
    observation: dict[str, object]
    notes: tuple[str, ...]
    root: str | None

    @classmethod
    def of(cls, content: Any) -> _Meta:
        """Checks parsed JSON; raises `ValueError` or `TypeError` if it is something else."""
        if not isinstance(content, dict):
            raise ValueError("its metadata is not what plusone writes")
        classes, default, root = content.get("classes"), content.get("default"), content.get("root")
        if default not in (None, 0, -1):
            raise ValueError(f"its metadata has the default {default!r}")
        if classes is not None and (
            not isinstance(classes, list)
            or len(set(classes)) < len(classes)
            or any(not isinstance(name, str) or name_fault(name) for name in classes)
        ):
            raise ValueError("its metadata has no proper list of classes")
        return cls(
            None if classes is None else tuple(classes),
            default,
            dict(content.get("observation", {})),
            tuple(str(note) for note in content.get("notes", ())),
            root if isinstance(root, str) else None,
        )


def items_of(
    pa: Any, arrow: Any, id_name: str | None, text_name: str | None, problems: Problems
) -> tuple[Strings, tuple[str, ...] | None]:
    """The ids of the rows, by default their numbers from 1, and their texts."""
    own = None
    if text_name is not None:
        try:
            cells = arrow.column(text_name).cast(pa.large_string()).to_pylist()
        except pa.ArrowException:
            raise InputError(f"{problems.source}: column {text_name!r} is not text") from None
        own = tuple(as_text(cell or "") for cell in cells)
    if id_name is None:
        return np.arange(1, arrow.num_rows + 1).astype(np.str_), own
    return texts(pa, arrow.column(id_name), id_name, problems), own


def texts(pa: Any, column: Any, name: str, problems: Problems) -> Strings:
    """A column of text."""
    try:
        cells = column.cast(pa.string()).to_pylist()
    except pa.ArrowException:
        raise InputError(f"{problems.source}: column {name!r} is not text") from None
    return id_array([cell or "" for cell in cells], problems.source)


def name_lists(pa: Any, column: Any, name: str, called: str, codes: ClassCodes) -> Lists:
    """Codes of a column of lists."""
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = pa.array([split_names(cell or "") for cell in column.to_pylist()])
        else:
            column = column.combine_chunks()
        column = column.cast(pa.list_(pa.string()))
    except pa.ArrowException:
        raise InputError(
            f"{codes.problems.source}: column {called!r} does not hold lists of names"
        ) from None
    counts = np.asarray(column.value_lengths().fill_null(0), dtype=np.int32)
    flat = column.flatten().dictionary_encode()
    rows = np.repeat(np.arange(len(counts)), counts)
    names = flat.dictionary.to_pylist()
    local = np.asarray(flat.indices.fill_null(-1), dtype=np.int64)
    number = np.full(len(names) + 1, -1, dtype=np.int32)  # the last one is for null names
    for place, label in enumerate(names):
        faulty = label not in codes.known and (codes.fixed or name_fault(label))
        starred = name == "negatives" and label == ALL_OTHERS
        if starred or faulty:
            hits = np.flatnonzero(local == place)
            if starred and (counts[rows[hits]] == 1).all():
                number[place] = -2
                continue
            for hit in hits if faulty else ():
                codes.code(label, int(rows[hit]) + 1)
        if not faulty:
            code = codes.code(label, None)
            number[place] = -1 if code is None else code
    entry_codes = number[local]
    for hit in np.flatnonzero(local < 0):
        codes.problems.add(f"an empty class name in {called}", row=int(rows[hit]) + 1)
    keep = entry_codes >= 0
    kept_counts = np.bincount(rows[keep], minlength=len(counts)).astype(np.int32)
    return Lists(entry_codes[keep], kept_counts, rows[entry_codes == -2])
