"""Reading and writing label tables: one module per format, and the table of formats.

The three states of a label are described in `plusone.data.matrix`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from plusone.data._arrow import PARQUET
from plusone.data.checks import check_twins
from plusone.data.dataset import Dataset
from plusone.data.formats import (
    coco,
    csv_long,
    csv_wide,
    folders,
    huggingface,
    json_lines,
    mulan,
    npz,
    parquet,
    text_folders,
    voc,
    webdataset,
    xmp_sidecars,
)
from plusone.data.formats.base import LABEL_MODES, Format, ReadOptions, as_labels
from plusone.data.shards import exists
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.files import NO_ROOM

__all__ = ["FORMATS", "Format", "ReadOptions", "detect", "read", "write"]

# Order matters: `detect` returns the first format that recognises a path.
FORMATS: dict[str, Format] = {
    "csv-long": Format(
        "CSV, image,labels[,negatives][,truth][,named][,split][,group], names separated by |; text "
        "in the place of image for texts",
        csv_long,
        csv_long.write,
        (".csv",),
    ),
    "csv-wide": Format("CSV, one column of 1, 0, -1 or empty per class", csv_wide, csv_wide.write),
    "npz": Format("npz: plusone's own, y [N, L], or xtr ytr xte yte", npz, npz.write, (".npz",)),
    "parquet": Format(
        "parquet: id, labels, negatives, truth, named, split, group (needs pyarrow)",
        parquet,
        parquet.write,
        PARQUET,
    ),
    "jsonl": Format("JSON lines: objects with the keys of csv-long, labels as lists", json_lines),
    "voc": Format("PASCAL VOC devkit: ImageSets/Main/<class>_<split>.txt", voc),
    "mulan": Format("MULAN: NAME.xml and NAME-train.arff, NAME-test.arff or NAME.arff", mulan),
    "coco": Format("COCO instances_*.json", coco),
    "folders": Format("a folder per class, optionally below train/, val/, test/", folders),
    "xmp": Format(
        "photos with XMP sidecars (photo.jpg.xmp or photo.xmp): their dc:subject", xmp_sidecars
    ),
    "webdataset": Format(
        "WebDataset tar files: key.jpg with key.cls, key.txt or key.json", webdataset
    ),
    "huggingface": Format(
        "Hugging Face: a folder saved by datasets, or parquet with images (needs pyarrow)",
        huggingface,
    ),
    "text-folders": Format("a folder of text files (.txt) per class", text_folders),
}


def detect(path: Path | str) -> str:
    """The name of the format of a file or folder; `InputError` if no format fits."""
    path = Path(path)
    if not exists(path):
        raise InputError(f"{path}: no such file or folder")
    detected = next((name for name, entry in FORMATS.items() if entry.module.detects(path)), None)
    if path.is_dir() and detected in (None, "folders"):
        folders.check_folder(path)
    if detected is None:
        known = "; ".join(f"{name} ({entry.summary})" for name, entry in FORMATS.items())
        raise InputError(f"{path}: the format of this file is not known; the formats are: {known}")
    return detected


def read(
    path: Path | str,
    *,
    format: str = "auto",
    labels: str = "auto",
    check_images: bool = True,
    classes: Sequence[str] | None = None,
    images: Path | str | None = None,
    keep_empty: bool = False,
    separator: str | None = None,
) -> Dataset:
    """Reads a data set.

    Args:
        path: File or folder, or a pattern of shards (`plusone.data.shards`). A folder with a
            `labels.csv` in it is read through that file.
        format: A name in `FORMATS`, or "auto".
        labels: "seen" (labels that are not given are unobserved), "complete" (they are negative),
            or "auto" (the format decides).
        check_images: Whether image files must exist.
        classes: The allowed classes in order (csv-long, csv-wide, parquet, folders, voc).
        images: Folder of the images, if it is not the usual one of the format.
        keep_empty: COCO: keep images without annotation.
        separator: csv-long: what is between the names in a cell; None to go by the file.

    Raises:
        InputError: The data cannot be read; the message lists the problems, the first 20 in full.
    """
    path = Path(path)
    if labels not in LABEL_MODES:
        raise InputError(f"labels {labels!r} is not one of {', '.join(LABEL_MODES)}")
    if format != "auto" and format not in FORMATS:
        raise InputError(f"format {format!r} is not one of auto, {', '.join(FORMATS)}")
    options = ReadOptions(
        labels,
        check_images,
        None if classes is None else tuple(classes),
        None if images is None else Path(images),
        keep_empty,
        separator or None,
    )
    try:
        if path.is_dir() and format in ("auto", "csv-long", "csv-wide"):
            inside = path / "labels.csv"
            path = inside if inside.is_file() else path
        name = detect(path) if format == "auto" else format
        if not exists(path):
            raise InputError(f"{path}: no such file or folder")
        data = FORMATS[name].module.read(path, options)
        check_twins(data.table.classes, path)
    except OSError as error:
        where = error.filename or path
        raise InputError(f"{where}: cannot be read ({error.strerror or error})") from None
    name = path.resolve().parent.name if data.name == "labels" else data.name
    return replace(data, table=as_labels(data.table, labels), name=name)


def write(data: Dataset | LabelTable, path: Path | str, *, format: str = "auto") -> None:
    """Writes a table atomically.

    Args:
        data: A table, or a data set (only npz can hold features).
        path: The file to write; its suffix determines the format (`.csv` is csv-long).
        format: A name in `FORMATS` that can be written, or "auto".
    """
    path = Path(path)
    data = data if isinstance(data, Dataset) else Dataset(data)
    writable = {name: entry for name, entry in FORMATS.items() if entry.write is not None}
    if format == "auto":
        suffix = path.suffix.lower()
        format = next((name for name, entry in writable.items() if suffix in entry.suffixes), "")
        if not format:
            raise InputError(f"{path}: the suffix {suffix!r} is not .csv, .npz or .parquet")
    writer = FORMATS[format].write if format in FORMATS else None
    if writer is None:
        raise InputError(f"format {format!r} cannot be written; take one of {', '.join(writable)}")
    if data.features is not None and format != "npz":
        raise InputError(f"{path}: {format} cannot hold features; write npz")
    try:
        writer(data, path)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
