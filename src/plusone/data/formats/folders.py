"""A folder per class: every image, or text file, is a seen positive of the class of its folder.

`ROOT/class/image.jpg`, or `ROOT/train/class/image.jpg` if all first-level folders are named
after splits. The other classes of an image are unobserved. An image that is in the folders of
several classes, with the same content, is one item with several labels. Where there are no images,
files that end in `.txt` are the items.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data._arrow import PARQUET
from plusone.data.checks import check_ids, name_fault, split_name
from plusone.data.dataset import Dataset
from plusone.data.formats import xmp_sidecars
from plusone.data.formats.base import ReadOptions
from plusone.data.formats.csv_text import as_text, encoding_of
from plusone.data.images import IMAGE_SUFFIXES, SOMETIMES, not_readable
from plusone.data.matrix import LabelMatrix
from plusone.data.shards import photo_key
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems, first_line
from plusone.io.readers import read_text

TEXT_SUFFIXES = (".txt",)
TABLES = (".csv", ".tsv", ".xlsx", ".npz", *PARQUET, ".json", ".arff")  # may hold labels
SHOWN = 4  # names in a message
LOOKED_AT = 100  # photos that may have sidecars
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
    kind = _kind(name for _, folder in groups for name in _files(folder)) or IMAGE_SUFFIXES
    with_images = {folder: sorted(_images(_files(folder), kind)) for _, folder in groups}
    named = sorted({folder.name for folder, images in with_images.items() if images})
    classes = options.classes or tuple(named)
    ids: list[str] = []
    columns: list[int] = []
    split: list[str] = []
    others: list[str] = []
    empty: list[str] = []
    for part, folder in groups:
        if fault := name_fault(folder.name):
            problems.add(f"class name {os.fsencode(folder.name)!r} {fault}")
            continue
        others += [n for n in _files(folder) if not n.lower().endswith(kind)]
        images = with_images[folder]
        if not images:
            empty.append(folder.relative_to(path).as_posix())
            continue
        if folder.name not in classes:
            problems.add(f"class folder {folder.name!r} is not in the class list")
            continue
        ids.extend(f"{folder.relative_to(path).as_posix()}/{name}" for name in images)
        columns.extend([classes.index(folder.name)] * len(images))
        split.extend([part or ""] * len(images))
    id_array = np.asarray(ids, dtype=np.str_)
    check_ids(id_array, problems)
    problems.raise_if_any()
    if not ids:
        unread = not_readable(others)
        raise InputError(
            f"{path}: its class folders have no image in them{f': {unread}' if unread else ''}"
        )
    item = _same_content(path, ids, columns, split)
    first, rows = np.unique(item, return_inverse=True)
    texts, what = None, "image"
    if kind == TEXT_SUFFIXES:
        texts, what = tuple(read_text_file(path / ids[row]) for row in first), "text file"
    at, of = np.unique(np.stack([rows, np.array(columns, dtype=np.int64)]), axis=1)
    labels = LabelMatrix.from_entries(at, of, 1, (len(first), len(classes)))
    unread = not_readable(others)
    foreign = sum(not name.lower().endswith(tuple(SOMETIMES)) for name in others)
    notes = [f"left out: {unread}"] if unread else []
    if empty:
        notes.append(f"left out, as they have no {what} in them: the folders {_some(empty)}")
    if several := len(ids) - len(first):
        shown = _some([ids[row] for row in np.flatnonzero(item != np.arange(len(ids)))])
        notes.append(
            f"{several} {what}s are in a second folder with the same content ({shown}): each is "
            "one item with several labels"
        )
    notes += [f"{foreign} files that are not {what}s were left out"] if foreign else []
    if loose := len(list(_images(os.listdir(path), kind))):
        notes.append(f"{loose} {what}s outside the class folders were left out")
    sidecars = [path / ids[row] for row in first[:LOOKED_AT]]
    if any(
        name.lower().endswith(xmp_sidecars.SUFFIX) for name in others
    ) and xmp_sidecars.has_sidecars(sidecars):
        notes.append("there are XMP sidecars with tags beside the images; --format xmp reads them")
    table = LabelTable(
        id_array[first],
        tuple(classes),
        labels,
        split=np.asarray(split, dtype="<U5")[first] if all(splits) else None,
        root=path if texts is None else None,
        notes=tuple(notes),
        texts=texts,
    )
    return Dataset(table, name=path.resolve().name)


def _same_content(
    path: Path, ids: Sequence[str], columns: Sequence[int], split: Sequence[str]
) -> npt.NDArray[np.int64]:
    """The first row with the same content and split in another class folder, or the row itself.

    Only files of equal size are read, and copies within one folder stay items of their own.
    """
    sizes: dict[tuple[str, int], list[int]] = {}
    for row, name in enumerate(ids):
        with suppress(OSError):
            sizes.setdefault((split[row], (path / name).stat().st_size), []).append(row)
    item = np.arange(len(ids))
    for (_, size), rows in sizes.items():
        if not size or len({columns[row] for row in rows}) < 2:
            continue
        first: dict[str, int] = {}
        for row in rows:
            key = photo_key(path / ids[row])
            if key is None:
                continue
            before = first.setdefault(key, row)
            if columns[before] != columns[row]:
                item[row] = before
    return item


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


def _images(names: Iterable[str], kind: tuple[str, ...] = IMAGE_SUFFIXES) -> Iterator[str]:
    return (name for name in names if name.lower().endswith(kind))


def _kind(names: Iterable[str]) -> tuple[str, ...]:
    """The suffixes of the items among these files: those of images, else of texts, else ()."""
    texts = False
    for name in names:
        if name.lower().endswith(IMAGE_SUFFIXES):
            return IMAGE_SUFFIXES
        texts = texts or name.lower().endswith(TEXT_SUFFIXES)
    return TEXT_SUFFIXES if texts else ()


def only_texts(path: Path) -> bool:
    """Whether a folder has several folders with files, all of which are texts."""
    below = [names for folder in _folders(path) if (names := [*_files(folder)])]
    return len(below) > 1 and all(
        name.lower().endswith(TEXT_SUFFIXES) for names in below for name in names
    )


def text_files(folder: Path) -> list[Path]:
    """The text files below a folder, sorted."""
    return [folder / name for name in sorted(_images(_files(folder), TEXT_SUFFIXES))]


def read_text_file(path: Path) -> str:
    """The text of a file, UTF-8 or Windows-1252."""
    try:
        content = read_text(path, encoding=encoding_of(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as text ({first_line(error)})") from None
    return as_text(content)


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
