"""A folder per class: every image is a seen positive of the class of its folder.

`ROOT/class/image.jpg`, or `ROOT/train/class/image.jpg` if all first-level folders are named
after splits. The other classes of an image are unobserved.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from plusone.data.checks import check_ids, name_fault, split_name
from plusone.data.dataset import Dataset
from plusone.data.formats.base import ReadOptions
from plusone.data.images import IMAGE_SUFFIXES
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems


def detects(path: Path) -> bool:
    """A folder with an image somewhere below one of its folders."""
    return path.is_dir() and any(
        name.lower().endswith(IMAGE_SUFFIXES)
        for folder in _folders(path)
        for name in _files(folder)
    )


def read_folders(path: Path, options: ReadOptions) -> Dataset:
    """Reads the tree; classes are the sorted folder names, ids the paths below `path`."""
    problems = Problems(path)
    tops = _folders(path)
    splits = [split_name(top.name) for top in tops]
    if tops and all(splits):
        groups = [
            (s, folder) for s, top in zip(splits, tops, strict=True) for folder in _folders(top)
        ]
    else:
        groups = [(None, folder) for folder in tops]
    if not groups:
        raise InputError(f"{path}: has no class folders in it")
    classes = options.classes or tuple(sorted({folder.name for _, folder in groups}))
    ids: list[str] = []
    columns: list[int] = []
    split: list[str] = []
    others = 0
    for kind, folder in groups:
        if fault := name_fault(folder.name):
            problems.add(f"class name {os.fsencode(folder.name)!r} {fault}")
            continue
        if folder.name not in classes:
            problems.add(f"class folder {folder.name!r} is not in the class list")
            continue
        names = list(_files(folder))
        images = sorted(name for name in names if name.lower().endswith(IMAGE_SUFFIXES))
        others += len(names) - len(images)
        if not images:
            problems.add(f"class folder {folder.relative_to(path).as_posix()!r} has no image in it")
        ids.extend(f"{folder.relative_to(path).as_posix()}/{name}" for name in images)
        columns.extend([classes.index(folder.name)] * len(images))
        split.extend([kind or ""] * len(images))
    id_array = np.asarray(ids, dtype=np.str_)
    check_ids(id_array, problems)
    problems.raise_if_any()
    labels = LabelMatrix.from_entries(np.arange(len(ids)), columns, 1, (len(ids), len(classes)))
    notes = [f"{others} files that are not images were left out"] if others else []
    if loose := sum(name.lower().endswith(IMAGE_SUFFIXES) for name in os.listdir(path)):
        notes.append(f"{loose} images outside the class folders were left out")
    table = LabelTable(
        id_array,
        tuple(classes),
        labels,
        split=np.asarray(split, dtype="<U5") if all(splits) else None,
        root=path,
        notes=tuple(notes),
    )
    return Dataset(table, name=path.resolve().name)


def _folders(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir() and child.name[0] != ".")


def _files(folder: Path) -> Iterator[str]:
    """Paths of the files below a folder, relative to it; follows links, each folder once."""
    visited: set[str] = set()
    for current, subfolders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(current)
        subfolders[:] = (
            [] if real in visited else sorted(name for name in subfolders if name[0] != ".")
        )
        if real in visited:
            continue
        visited.add(real)
        prefix = os.path.relpath(current, folder).replace(os.sep, "/")
        for name in files:
            if name[0] != ".":
                yield name if prefix == "." else f"{prefix}/{name}"
