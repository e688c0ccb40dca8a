"""The description of a format (`Format`) and the options of a reader (`ReadOptions`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from plusone.data.checks import id_fault, line_of, missing_images, short
from plusone.data.dataset import Dataset
from plusone.data.table import LabelTable, Strings
from plusone.errors import Problems

LABEL_MODES = ("auto", "seen", "complete")


@dataclass(frozen=True)
class ReadOptions:
    """Options of a reader.

    Args:
        labels: "seen" (0 means unobserved), "complete" (0 means negative), or "auto".
        check_images: Whether image files must exist.
        classes: The allowed class names in order; None to take them from the file.
        images: Folder of the images, if it is not the usual one of the format.
        keep_empty: COCO: keep images without annotation.
        separator: csv-long: what is between the names in a cell; None to go by the file.
    """

    labels: str = "auto"
    check_images: bool = True
    classes: tuple[str, ...] | None = None
    images: Path | None = None
    keep_empty: bool = False
    separator: str | None = None


class Reader(Protocol):
    """The module of a format."""

    def detects(self, path: Path) -> bool:
        """Whether an existing path looks like this format."""

    def read(self, path: Path, options: ReadOptions) -> Dataset:
        """Reads a file or folder in this format."""


@dataclass(frozen=True)
class Format:
    """One row of the table of formats: a line for help texts, and its module.

    `write` is None if it can only be read; `suffixes` of files select the format when writing.
    """

    summary: str
    module: Reader
    write: Callable[[Dataset, Path], None] | None = None
    suffixes: tuple[str, ...] = ()


def as_labels(table: LabelTable, mode: str) -> LabelTable:
    """The table with its labels interpreted as `mode` says.

    "seen" drops the truth; of complete labels, only the positives are kept. "complete" uses the
    truth (or, without one, the positives) as labels, and everything else becomes negative.
    """
    if mode == "complete" and not (table.is_complete and table.truth is not None):
        truth = (table.truth or table.labels).only_positives(default=-1)
        note = "labels were read as complete, as requested: all that are not positive are negative"
        notes = (*table.notes, note)
        return replace(table, labels=truth, truth=truth, observation={}, named=None, notes=notes)
    if mode == "seen" and table.truth is not None:
        labels = table.labels.only_positives() if table.is_complete else table.labels
        note = "labels were read as seen, as requested: all that are not given are unobserved"
        return replace(table, labels=labels, truth=None, notes=(*table.notes, note))
    return table


def root_from(table: LabelTable, path: Path) -> str | None:
    """The image folder of a table as stored in a label file at `path`; None if there is none.

    It is relative to the file, so that both can be moved together.
    """
    if table.root is None:
        return None
    root, folder = table.root.resolve(), path.resolve().parent
    try:
        return Path(os.path.relpath(root, folder)).as_posix()
    except ValueError:  # another drive
        return root.as_posix()


def root_of(ids: Strings, path: Path, named: str | None) -> Path:
    """The image folder of a label file: the one stored in it, or the folder of the file.

    A stored folder that has none of the images is ignored: the file was moved to its images, or
    rewritten by another program.
    """
    if named is None or "\0" in named:
        return path.parent
    folder = (path.parent / named).resolve()
    return folder if len(missing_images(ids, folder)) < len(ids) else path.parent


def images_root(
    ids: Strings,
    root: Path | None,
    options: ReadOptions,
    problems: Problems,
    lines: Sequence[int] | None = None,
) -> tuple[Path | None, tuple[str, ...]]:
    """Checks that image files exist; returns the root to use and notes.

    If none of the files exists below the usual `root` of the format, the items are assumed not to
    be images: the root is None and a note says so. Otherwise each missing file is reported, and so
    it is below a root that the user named.
    """
    root = options.images or root
    if root is None or not options.check_images or not len(ids):
        return root, ()
    missing = missing_images(ids, root)
    if len(missing) == len(ids) and options.images is None:
        return None, (f"no image file of the table exists below {root}: labels only",)
    for row in missing:
        name = str(ids[row])
        if id_fault(name) is None:  # otherwise it was reported already
            where = f"does not exist below {root}"
            problems.add(f"image {short(name)} {where}", row=line_of(lines, row))
    return root, ()
