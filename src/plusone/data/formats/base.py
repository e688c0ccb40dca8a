"""What a form is (`Format`), and the choices a reader can be given (`ReadOptions`)."""

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
    """Choices of the caller.

    Args:
        labels: "seen" (0 means unobserved), "complete" (0 means no), or "auto".
        check_images: Whether image files must exist.
        classes: The allowed class names in order; None takes them from the file.
        images: Folder of the images, if it is not where the form puts it.
        keep_empty: COCO: keep images without annotation.
    """

    labels: str = "auto"
    check_images: bool = True
    classes: tuple[str, ...] | None = None
    images: Path | None = None
    keep_empty: bool = False


@dataclass(frozen=True)
class Format:
    """One row of the table of forms.

    Args:
        summary: One line for help texts.
        read: Reads a file or folder of this form.
        write: Writes a data set in this form; None if the form is only read.
        detects: Whether an existing path looks like this form.
        suffixes: File suffixes that mean this form when writing.
    """

    summary: str
    read: Callable[[Path, ReadOptions], Dataset]
    write: Callable[[Dataset, Path], None] | None
    detects: Callable[[Path], bool]
    suffixes: tuple[str, ...] = ()


def as_labels(table: LabelTable, mode: str) -> LabelTable:
    """The table with its labels taken as `mode` says.

    "seen" forgets the truth; labels that were complete keep their positives only. "complete"
    makes the truth (or, without one, the positives) the labels, and everything else negative.
    """
    if mode == "complete" and not (table.is_complete and table.truth is not None):
        truth = (table.truth or table.labels).only_positives(default=-1)
        note = "labels were taken as complete, as asked: what is not positive is negative"
        return replace(table, labels=truth, truth=truth, observation={}, notes=(*table.notes, note))
    if mode == "seen" and table.truth is not None:
        labels = table.labels.only_positives() if table.is_complete else table.labels
        note = "labels were taken as seen, as asked: what is not given is unobserved"
        return replace(table, labels=labels, truth=None, notes=(*table.notes, note))
    return table


def root_from(table: LabelTable, path: Path) -> str | None:
    """The folder of a table's images as a label file at `path` names it; None if there is none.

    Relative to the file, so that both may move together.
    """
    if table.root is None:
        return None
    root, here = table.root.resolve(), path.resolve().parent
    try:
        return Path(os.path.relpath(root, here)).as_posix()
    except ValueError:  # another drive
        return root.as_posix()


def root_of(ids: Strings, path: Path, named: str | None) -> Path:
    """The folder of the images of a label file: the one it names, or its own.

    A named folder that has none of the images is passed over: the file was moved to its images, or
    written anew by something else.

    Args:
        ids: Path of each image below the folder.
        path: The label file.
        named: The folder as `root_from` wrote it.
    """
    if named is None or "\0" in named:
        return path.parent
    folder = (path.parent / named).resolve()
    return folder if len(missing_images(ids, folder)) < len(ids) else path.parent
