"""A folder per class: every image is a seen positive of the class of its folder.

`ROOT/class/image.jpg`, or `ROOT/train/class/image.jpg` if all first-level folders are named
after splits. The other classes of an image are unobserved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from plusone.data._arrow import PARQUET
from plusone.data.checks import check_ids, name_fault, split_name
from plusone.data.dataset import Dataset
from plusone.data.formats.base import ReadOptions
from plusone.data.images import IMAGE_SUFFIXES, SOMETIMES, not_readable
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems

TABLES = (".csv", ".tsv", ".xlsx", ".npz", *PARQUET, ".json", ".arff")  # may hold labels
SHOWN = 4  # names in a message
MOST_FILES = 10_000  # that are looked at to say what a folder has in it


def detects(path: Path) -> bool:
    """A folder with an image somewhere below one of its folders."""
    return path.is_dir() and any(_ for folder in _folders(path) for _ in _images(_files(folder)))


def read(path: Path, options: ReadOptions) -> Dataset:
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
    others: list[str] = []
    for kind, folder in groups:
        if fault := name_fault(folder.name):
            problems.add(f"class name {os.fsencode(folder.name)!r} {fault}")
            continue
        if folder.name not in classes:
            problems.add(f"class folder {folder.name!r} is not in the class list")
            continue
        names = list(_files(folder))
        images = sorted(_images(names))
        rest = [name for name in names if not name.lower().endswith(IMAGE_SUFFIXES)]
        others += rest
        if not images:
            unread = not_readable(rest)
            problems.add(
                f"class folder {folder.relative_to(path).as_posix()!r} has no image in it"
                f"{f': {unread}' if unread else ''}"
            )
        ids.extend(f"{folder.relative_to(path).as_posix()}/{name}" for name in images)
        columns.extend([classes.index(folder.name)] * len(images))
        split.extend([kind or ""] * len(images))
    id_array = np.asarray(ids, dtype=np.str_)
    check_ids(id_array, problems)
    problems.raise_if_any()
    labels = LabelMatrix.from_entries(np.arange(len(ids)), columns, 1, (len(ids), len(classes)))
    unread = not_readable(others)
    foreign = sum(not name.lower().endswith(tuple(SOMETIMES)) for name in others)
    notes = [f"left out: {unread}"] if unread else []
    notes += [f"{foreign} files that are not images were left out"] if foreign else []
    if loose := len(list(_images(os.listdir(path)))):
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


def check_folder(path: Path) -> None:
    """Refuses a folder without class folders, and one that is a level too high."""
    tops = _folders(path)
    pictured = [top for top in tops if any(_images(_files(top)))]
    if len(tops) == 1 and pictured and split_name(tops[0].name) is None:
        inner = [folder for folder in _folders(tops[0]) if any(_images(_files(folder)))]
        if len(inner) > 1 and not any(_images(os.listdir(tops[0]))):
            raise InputError(
                f"{path}: the folders of the classes ({_some([f.name for f in inner])}) are one "
                f"level further down; name {tops[0]} instead (--format folders takes "
                f"{tops[0].name!r} for the only class)"
            )
    if pictured:
        return
    files = [name for name in os.listdir(path) if name[0] != "." and (path / name).is_file()]
    below = [*files, *islice((name for top in tops for name in _files(top)), MOST_FILES)]
    if tables := sorted(name for name in files if name.lower().endswith(TABLES)):
        raise InputError(
            f"{path}: has no class folders and no labels.csv, but {_some(tables)}; name the file "
            f"with the labels, such as {path / tables[0]}"
        )
    if loose := len(list(_images(files))):
        raise InputError(
            f"{path}: has {loose} image{'' if loose == 1 else 's'} in it, but nothing says what "
            f"their labels are; put the images of each label into a folder of its own "
            f"({path / 'cat' / '1.jpg'}), or write {path / 'labels.csv'} with the columns "
            "image,labels"
        )
    if (unread := not_readable(below)) is not None:
        raise InputError(f"{path}: {unread}, and there are no others")
    kinds = sorted({Path(name).suffix.lower() or name for name in below})
    what = f"has no images in it, only {_some(kinds)}" if kinds else "has no files in it"
    raise InputError(
        f"{path}: {what}; name a folder with a folder of images for each label in it, or a file "
        "with labels (docs/own-data.md shows all forms)"
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _images(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.lower().endswith(IMAGE_SUFFIXES))


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
