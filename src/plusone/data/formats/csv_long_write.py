"""Writing CSV in long form, with a class list beside it where the names alone do not say it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.dataset import Dataset
from plusone.data.formats.checks import CHUNK
from plusone.data.formats.csv_text import check_writable, class_list_path
from plusone.data.formats.longform import ALL_OTHERS, SEPARATOR, columns_of
from plusone.data.formats.sidecar import write_sidecar
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.files import replacing, write_text


def write_csv_long(data: Dataset, path: Path) -> None:
    """Writes the table in long form, with a class list beside it where one is needed."""
    table = data.table
    check_writable(iter(table.classes), "class", path, forbidden=SEPARATOR)
    if ALL_OTHERS in table.classes:
        raise InputError(f"{path}: class '*' cannot be written in long form; write npz instead")
    columns = columns_of(table)
    cells: dict[str, Iterable[str]] = {"labels": _cells(table.labels, table.classes)}
    if columns.starred:
        cells["negatives"] = (ALL_OTHERS for _ in range(len(table)))
    elif columns.negatives is not None:
        cells["negatives"] = _cells(columns.negatives, table.classes)
    if columns.truth is not None:
        cells["truth"] = _cells(columns.truth, table.classes)
    if table.split is not None:
        cells["split"] = _texts(table.split)
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["image", *cells])
        check_writable(_texts(table.ids), "id", path)
        writer.writerows(zip(_texts(table.ids), *cells.values(), strict=True))
    used = _used(table, columns.negatives, columns.truth)
    if path.with_name("classes.txt").is_file() or used != list(table.classes):
        write_text(class_list_path(path), "".join(f"{name}\n" for name in table.classes))
    else:
        class_list_path(path).unlink(missing_ok=True)
    write_sidecar(table, path)


def _texts(array: npt.NDArray[np.str_]) -> Iterator[str]:
    for start in range(0, len(array), CHUNK):
        yield from array[start : start + CHUNK].tolist()


def _cells(matrix: LabelMatrix, classes: tuple[str, ...]) -> Iterator[str]:
    for start in range(0, len(matrix), CHUNK):
        part = matrix.take(np.arange(start, min(start + CHUNK, len(matrix)))).only_positives()
        names = [classes[index] for index in part.indices.tolist()]
        bounds = part.indptr.tolist()
        for first, last in pairwise(bounds):
            yield SEPARATOR.join(names[first:last])


def _used(table: LabelTable, *others: LabelMatrix | None) -> list[str]:
    seen = np.zeros(len(table.classes), dtype=bool)
    for matrix in (table.labels, *others):
        if matrix is not None:
            seen |= matrix.per_class(1) > 0
    return sorted(name for name, hit in zip(table.classes, seen, strict=True) if hit)
