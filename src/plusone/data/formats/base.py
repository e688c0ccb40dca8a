"""What a form is (`Format`), and the choices a reader can be given (`ReadOptions`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plusone.data.dataset import Dataset
from plusone.data.formats.checks import missing_images
from plusone.data.table import LabelTable, Strings
from plusone.io.files import write_json
from plusone.io.readers import read_json

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


def sidecar_path(path: Path) -> Path:
    """Where the observation of a label file is kept."""
    return path.with_name(f"{path.name}.observation.json")


def write_sidecar(table: LabelTable, path: Path) -> None:
    """Writes the sidecar of `table` beside `path`; if there is nothing to say, an old one goes."""
    content: dict[str, Any] = {}
    if table.observation:
        content = {
            "observation": dict(table.observation),
            "digest": table.labels.digest(),
            "default": table.labels.default,
        }
    if (root := root_from(table, path)) not in (None, "."):
        content["images"] = root
    if content:
        write_json(sidecar_path(path), content)
    else:
        sidecar_path(path).unlink(missing_ok=True)


def sidecar_root(ids: Strings, path: Path) -> Path:
    """The folder of the images of a CSV file: the one its sidecar names, or its own."""
    try:
        named = _content(sidecar_path(path)).get("images")
    except (OSError, ValueError, TypeError):
        named = None  # `with_sidecar` says so
    return root_of(ids, path, named if isinstance(named, str) else None)


def with_sidecar(table: LabelTable, path: Path) -> LabelTable:
    """The table with its observation, if there is a sidecar and it belongs to these labels."""
    beside = sidecar_path(path)
    if not beside.is_file():
        return table
    try:
        content = _content(beside)
        if content.keys() == {"images"}:
            return table
        observation, digest = dict(content["observation"]), str(content["digest"])
        default = int(content["default"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return _ignored(table, beside, "it cannot be read")
    if default not in (0, -1):
        return _ignored(table, beside, f"its default is {default}")
    labels = table.labels.with_default(default)
    if labels.digest() != digest:
        return _ignored(table, beside, "it belongs to other labels")
    return replace(table, labels=labels, observation=observation)


def _content(beside: Path) -> dict[str, Any]:
    return dict(read_json(beside))


def _ignored(table: LabelTable, beside: Path, why: str) -> LabelTable:
    return replace(table, notes=(*table.notes, f"{beside.name} was ignored: {why}"))
