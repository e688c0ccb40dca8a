"""Shards: many images in one file, read in place.

A shard is a tar file (WebDataset), or an arrow or parquet file with a column of images (Hugging
Face). It counts as a folder of images: `train-000.tar/7.jpg` is the member `7.jpg` of a tar file,
and `train-000.parquet/000012` the image of row 12. Such a path is an id like any other, and
`plusone.data.images.open_image` reads it. Nothing is unpacked: only the requested image is read.

Names in a shard are looked up in an index of it. They are never paths on the disk.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice, product
from pathlib import Path

from plusone.data import _arrow, _tar
from plusone.errors import InputError
from plusone.io.keys import content_key, file_key, file_state
from plusone.io.readers import read_json

TAR = ".tar"
SUFFIXES = (TAR, *_arrow.SUFFIXES)
FOLDERS = ("data", "train", "val", "valid", "validation", "dev", "test")  # that may hold shards
MOST_SHARDS = 100_000
PHOTO_KEY = 32  # digits
BRACES = re.compile(r"\{([^{}]+)\}")
RANGE = re.compile(r"(\d+)\.\.(\d+)")


def shards_of(path: Path) -> tuple[Path, ...]:
    """The shards that a path stands for, all of one kind; none if it stands for something else.

    Args:
        path: A shard; a folder with shards in it or in its folders `data`, `train`, `val` and
            `test`; a folder that `datasets` saved; or a pattern, such as
            `train-{000000..000009}.tar` or `data/*.parquet`.

    Raises:
        InputError: A file that a pattern with braces names is missing, or what `datasets` wrote
            beside its shards is damaged.
    """
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = list(_saved(path)) or list(_inside(path))
        if len(set(files)) < len(files):  # each time it would be read again
            raise InputError(f"{path}: its JSON files name a shard twice; save the data set again")
    else:
        files = _matching(str(path))
        if len({file.suffix.lower() for file in files}) > 1:
            return ()
    for suffix in SUFFIXES:
        some = tuple(file for file in files if file.suffix.lower() == suffix)
        if some and (suffix in (TAR, _arrow.ARROW) or _arrow.has_images(some[0])):
            return some
    return ()


def exists(path: Path) -> bool:
    """Whether a path is a file or a folder, or a pattern of shards."""
    return path.exists() or bool(shards_of(path))


def root_of(path: Path, shards: tuple[Path, ...]) -> Path:
    """The folder that ids of images in these shards are relative to."""
    if path.is_dir():
        return path
    return Path(os.path.commonpath([shard.parent for shard in shards]))


def _saved(folder: Path) -> Iterator[Path]:
    """The shards of a folder that `datasets` saved: one data set, or one for each split."""
    parts = [folder]
    try:
        if (folder / "dataset_dict.json").is_file():
            splits = read_json(folder / "dataset_dict.json")["splits"]
            parts = [folder / _plain(name) for name in splits]
        elif not (folder / "state.json").is_file():
            return
        for part in parts:
            for file in read_json(part / "state.json")["_data_files"]:
                yield part / _plain(file["filename"])
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file; the folder is not complete") from None
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder}: its JSON files are not those of datasets ({error})") from None


def _plain(name: object) -> str:
    """The name of a file in its folder; `ValueError` for anything else."""
    if not isinstance(name, str) or not name or re.search(r"[/\\\0:]|^\.", name):
        raise ValueError(f"{name!r} is not the name of a file in the folder")
    return name


def _inside(folder: Path) -> Iterator[Path]:
    for place in (folder, *(folder / name for name in FOLDERS)):
        if place.is_dir():
            yield from sorted(
                file
                for file in place.iterdir()
                if file.name[0] != "." and file.suffix.lower() in SUFFIXES and file.is_file()
            )


def named_files(path: Path) -> list[Path]:
    """The files that a pattern stands for; the path itself if it is none, or nothing matches."""
    return [path] if path.exists() else _matching(str(path)) or [path]


def _matching(pattern: str) -> list[Path]:
    """The files that a pattern names; those of braces must exist."""
    files: list[Path] = []
    for text in expand_braces(pattern):
        if glob.has_magic(text):
            files += [Path(name) for name in sorted(glob.glob(text, recursive=True))]
        elif text != pattern:
            if not os.path.isfile(text):
                raise InputError(f"{text}: no such file, one of {pattern}")
            files.append(Path(text))
    return files


def expand_braces(pattern: str) -> list[str]:
    """The texts that braces stand for, as in a shell and in `webdataset`.

    >>> expand_braces("{train,val}-{08..10}.tar")[2:4]
    ['train-10.tar', 'val-08.tar']
    """
    parts = BRACES.split(pattern)
    choices: list[list[str]] = []
    count = 1
    for place, part in enumerate(parts):
        span = RANGE.fullmatch(part)
        if place % 2 == 0:
            choices.append([part])
        elif span is not None:
            first, last, width = int(span[1]), int(span[2]), len(span[1])
            many = range(first, min(last, first + MOST_SHARDS) + 1)
            choices.append([f"{number:0{width}d}" for number in many])
        else:
            choices.append(part.split(","))
        count *= len(choices[-1])
    if count > MOST_SHARDS:
        raise InputError(f"{pattern}: stands for more than {MOST_SHARDS:,} files")
    return ["".join(texts) for texts in islice(product(*choices), MOST_SHARDS)]


def shard_of(path: Path) -> Path | None:
    """The shard that the path of an image leads into; None if it does not."""
    for parent in path.parents:
        if parent.suffix.lower() in SUFFIXES and parent.is_file():
            return parent
        if parent.is_dir():
            break
    return None


def members(shard: Path) -> Mapping[str, _tar.Member | int]:
    """The names in a shard, in order, and where each is: its position, or its row.

    Raises:
        InputError: The shard is damaged.
        OSError: It cannot be opened.
    """
    return _members(shard, file_state(shard))


@cache
def _members(shard: Path, state: object) -> Mapping[str, _tar.Member | int]:
    if shard.suffix.lower() == TAR:
        return _tar.index(shard)
    return {name: row for row, name in enumerate(_arrow.row_names(shard))}


def is_image(path: Path) -> bool:
    """Whether a path is a file, or a name in a shard."""
    if path.is_file():
        return True
    shard = shard_of(path)
    try:
        return shard is not None and path.relative_to(shard).as_posix() in members(shard)
    except (OSError, InputError):
        return False


def read_member(path: Path) -> bytes | memoryview:
    """The content of an image in a shard.

    Raises:
        ValueError: The shard has no such image, or is damaged.
        OSError: There is no such shard.
    """
    shard = shard_of(path)
    if shard is None:
        raise FileNotFoundError(2, "No such file or directory", str(path))
    place = members(shard).get(path.relative_to(shard).as_posix())
    if place is None:
        raise ValueError("the shard has no such name in it")
    if isinstance(place, int):
        return _arrow.image_bytes(shard, place)
    return _tar.content(shard, place)


def photo_key(path: Path) -> str | None:
    """A key of the content of an image, in a file of its own or in a shard; None if there is none.

    Its length makes it hopeless to look for another image with the same key.
    """
    try:
        if path.is_file():
            return file_key(path, length=PHOTO_KEY)
        return content_key(read_member(path), length=PHOTO_KEY)
    except (OSError, ValueError, InputError):
        return None
