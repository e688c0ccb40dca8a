"""The description of a format (`Format`) and the options of a reader (`ReadOptions`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from plusone.data.checks import missing_images
from plusone.data.dataset import Dataset
from plusone.data.table import LabelTable, Strings

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
    """

    labels: str = "auto"
    check_images: bool = True
    classes: tuple[str, ...] | None = None
    images: Path | None = None
    keep_empty: bool = False


@dataclass(frozen=True)
class Format:
    """One row of the table of formats.

    Args:
        summary: One line for help texts.
        read: Reads a file or folder in this format.
        write: Writes a data set in this format; None if it can only be read.
        detects: Whether an existing path looks like this format.
        suffixes: File suffixes that select this format when writing.
    """

    summary: str
    read: Callable[[Path, ReadOptions], Dataset]
    write: Callable[[Dataset, Path], None] | None
    detects: Callable[[Path], bool]
    suffixes: tuple[str, ...] = ()


def as_labels(table: LabelTable, mode: str) -> LabelTable:
    """The table with its labels interpreted as `mode` says.

    "seen" drops the truth; of complete labels, only the positives are kept. "complete" uses the
    truth (or, without one, the positives) as labels, and everything else becomes negative.
    """
    if mode == "complete" and not (table.is_complete and table.truth is not None):
        truth = (table.truth or table.labels).only_positives(default=-1)
        note = "labels were read as complete, as requested: all that are not positive are negative"
        return replace(table, labels=truth, truth=truth, observation={}, notes=(*table.notes, note))
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

    Args:
        ids: Path of each image below the folder.
        path: The label file.
        named: The stored folder, from `root_from`.
    """
    if named is None or "\0" in named:
        return path.parent
    folder = (path.parent / named).resolve()
    return folder if len(missing_images(ids, folder)) < len(ids) else path.parent
