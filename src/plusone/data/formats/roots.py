"""Where the images of a label file are, when they are not beside it."""

from __future__ import annotations

import os
from pathlib import Path

from plusone.data.formats.checks import missing_images
from plusone.data.table import LabelTable, Strings


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
