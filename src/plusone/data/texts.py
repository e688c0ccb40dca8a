"""Texts without labels: of a table, of text files, of folders of them."""

from __future__ import annotations

import glob
from pathlib import Path

from plusone.data._arrow import PARQUET, reading, schema_of, table_of
from plusone.data.checks import check_ids, id_array
from plusone.data.dataset import Dataset
from plusone.data.formats import json_lines, parquet
from plusone.data.formats.csv_text import as_text, header_of, open_table, text_columns
from plusone.data.formats.folders import TEXT_SUFFIXES, only_texts, read_text_file, text_files
from plusone.data.matrix import LabelMatrix
from plusone.data.table import ID_COLUMNS, TEXT, LabelTable, item_columns
from plusone.errors import InputError, Problems

TABLES = (".csv", *json_lines.SUFFIXES, *PARQUET)
UNLABELLED = ("split", "group")  # further columns that say nothing about labels


def read_texts(argument: str) -> tuple[list[str], list[str]] | None:
    """Ids and texts of an argument of a command; None if it is something else.

    A CSV, JSON-lines or parquet file needs a column `text`; ids are those of its column `id`, or
    numbers from 1. Text files are found in folders at any depth, and by patterns; their ids are
    paths relative to the folder.
    """
    path = Path(argument)
    if path.is_dir():
        files = text_files(path)
        return None if not files else _of_files(files, path)
    if path.is_file():
        if path.suffix.lower() in TEXT_SUFFIXES:
            return _of_files([path], path.parent)
        return _of_table(path) if path.suffix.lower() in TABLES else None
    if glob.has_magic(argument):
        files = [Path(name) for name in sorted(glob.glob(argument, recursive=True))]
        files = [file for file in files if file.suffix.lower() in TEXT_SUFFIXES]
        return None if not files else _of_files(files, None)
    return None


def texts_of(argument: str) -> Dataset | None:
    """The texts of an argument that has no labels; None if it is something else."""
    path = Path(argument)
    if not path.exists() or not without_labels(path) or (known := read_texts(argument)) is None:
        return None
    problems = Problems(path)
    ids = id_array(known[0], path)
    check_ids(ids, problems)
    problems.raise_if_any()
    none = LabelMatrix.from_entries([], [], 1, (len(ids), 0))
    return Dataset(LabelTable(ids, (), none, texts=tuple(known[1])), name=path.resolve().name)


def without_labels(path: Path) -> bool:
    """Whether what `read_texts` reads has no labels: no further columns, no class folders."""
    if path.is_dir():
        return bool(text_files(path)) and not only_texts(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        names = header_of(path)
    elif suffix in PARQUET:
        names = schema_of(path).names
    elif suffix in json_lines.SUFFIXES:
        names = [*next((record for _, record in json_lines.records(path, Problems(path))), {})]
    else:
        return False
    others = {name.lower() for name in names} - {TEXT, *ID_COLUMNS, *UNLABELLED}
    return item_columns(names)[1] is not None and not others


def _of_files(files: list[Path], root: Path | None) -> tuple[list[str], list[str]]:
    names = [(file if root is None else file.relative_to(root)).as_posix() for file in files]
    return names, [read_text_file(file) for file in files]


def _of_table(path: Path) -> tuple[list[str], list[str]]:
    problems = Problems(path)
    ids: list[str] = []
    texts: list[str] = []
    if path.suffix.lower() in PARQUET:
        id_name, text_name = item_columns(schema_of(path).names)
        if text_name is None:
            raise _no_text(path, schema_of(path).names)
        with reading(path) as pa:
            arrow = table_of(path, [text_name, *([id_name] if id_name else [])])
            names, own = parquet.items_of(pa, arrow, id_name, text_name, problems)
            return names.tolist(), list(own or ())
    if path.suffix.lower() in json_lines.SUFFIXES:
        for line, record in json_lines.records(path, problems):
            id_name, text_name = item_columns([*record])
            if text_name is None:
                problems.add("has no 'text'", row=line)
                continue
            texts.append(json_lines.text_of(record, text_name, problems, line))
            own_id = json_lines.text_of(record, id_name, problems, line) if id_name else ""
            ids.append(own_id or str(len(texts)))
    else:
        _, header, rows = open_table(path, problems)
        if item_columns(header)[1] is None:
            raise _no_text(path, header)
        id_at, text_at = text_columns(header, path)
        for _, row in rows:
            texts.append(as_text(row[text_at or 0]))
            ids.append(str(len(texts)) if id_at is None else row[id_at].strip())
    problems.raise_if_any()
    return ids, texts


def _no_text(path: Path, names: list[str]) -> InputError:
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return InputError(f"{path}: has no column 'text' (found: {shown}); give the texts this name")
