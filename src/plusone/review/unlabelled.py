"""Reading items that nobody has labelled yet."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from plusone.data.formats import read
from plusone.data.formats.checks import check_ids, id_array, missing_images
from plusone.data.formats.csv_text import header_of, id_column, read_class_list, records
from plusone.data.formats.folders import IMAGE_SUFFIXES
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems


def read_unlabelled(data: Path, classes: Path | None) -> LabelTable:
    """The items of a folder or a table, with what is seen of their labels, if anything is.

    Args:
        data: A folder of images; a CSV file with a column of names alone; or a label table of any
            known form, in which items without a positive are the ones to label.
        classes: A file with one class name a line; a label table can do without.
    """
    if not data.exists():
        raise InputError(f"{data}: no such file or folder")
    names = None if classes is None else read_class_list(classes)
    if data.is_dir() and not (data / "labels.csv").is_file():
        return _bare(_images(data), _needed(names, data), data, Problems(data))
    if data.suffix.lower() == ".csv" and len(header := header_of(data)) == 1:
        return _listed(data, header, _needed(names, data))
    table = read(data, labels="seen", classes=names).table
    return replace(table, labels=table.labels.with_default(0), truth=None)


def _needed(names: tuple[str, ...] | None, data: Path) -> tuple[str, ...]:
    if names is None:
        raise InputError(f"{data}: says no classes; name a file of them with --classes")
    return names


def _images(folder: Path) -> list[str]:
    found = []
    for here, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if name[0] != ".")
        place = Path(here).relative_to(folder)
        found += [
            (place / name).as_posix()
            for name in sorted(files)
            if name[0] != "." and name.lower().endswith(IMAGE_SUFFIXES)
        ]
    if not found:
        raise InputError(f"{folder}: has no image in it")
    return found


def _listed(path: Path, header: list[str], classes: tuple[str, ...]) -> LabelTable:
    id_column(header, path)
    problems = Problems(path)
    rows = list(records(path, problems))[1:]
    ids = [cells[0].strip() for _, cells in rows]
    some = id_array(ids[:1000], path)
    exist = len(missing_images(some, path.parent)) < len(some)
    return _bare(ids, classes, path.parent if exist else None, problems)


def _bare(
    ids: list[str], classes: tuple[str, ...], root: Path | None, problems: Problems
) -> LabelTable:
    names = id_array(ids, problems.source)
    check_ids(names, problems)
    problems.raise_if_any()
    empty = LabelMatrix.from_entries([], [], [], (len(ids), len(classes)))
    return LabelTable(names, classes, empty, root=root)
