"""A folder of photos with XMP sidecars, whose `dc:subject` are the seen positives.

A sidecar is beside its photo: `photo.jpg.xmp` (darktable, digiKam) or `photo.xmp` (Lightroom).
Those that plusone wrote hold predictions, and are left out. A photo without a sidecar has no seen
label.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from plusone.data.checks import check_ids, id_array
from plusone.data.dataset import Dataset
from plusone.data.formats._longform import ClassCodes
from plusone.data.formats.base import ReadOptions
from plusone.data.images import image_files
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems
from plusone.io.readers import parse_xml

SUFFIX = ".xmp"
TOOLKIT = "plusone"  # the writer that our own sidecars name
DC = "http://purl.org/dc/elements/1.1/ subject"
LI = "http://www.w3.org/1999/02/22-rdf-syntax-ns# li"
META, KIT = "adobe:ns:meta/ xmpmeta", "adobe:ns:meta/ xmptk"


def detects(path: Path) -> bool:
    """A folder with a photo that has a sidecar beside it, not written by plusone."""
    return path.is_dir() and has_sidecars(image_files(path))


def has_sidecars(photos: Iterable[Path]) -> bool:
    """Whether a sidecar of another program with a tag in it is beside one of some photos."""
    for photo in photos:
        try:
            if (beside := sidecar_of(photo)) is not None and subjects(beside):
                return True
        except InputError:  # which reading it reports
            continue
    return False


def sidecar_of(photo: Path) -> Path | None:
    """The sidecar beside a photo, or None."""
    names = (photo.name + SUFFIX, photo.stem + SUFFIX)
    return next((file for file in map(photo.with_name, names) if file.is_file()), None)


def subjects(file: Path) -> list[str]:
    """The tags in a sidecar; none in one that plusone wrote."""
    names: list[list[str]] = []
    subject, item = 0, False  # how many such elements are open, and whether a tag is
    own = False

    def start(tag: str, attributes: dict[str, str], row: int) -> None:
        nonlocal own, subject, item
        own = own or (tag == META and attributes.get(KIT) == TOOLKIT)
        subject += tag == DC
        item = tag == LI and subject > 0
        if item:
            names.append([])

    def end(tag: str) -> None:
        nonlocal subject, item
        subject -= tag == DC
        item = False

    def text(part: str) -> None:
        if item:
            names[-1].append(part)

    parse_xml(file, start, end, text, namespaces=True)
    found = (" ".join("".join(parts).split()) for parts in names)
    return [] if own else [*dict.fromkeys(filter(None, found))]


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads the sidecars of all photos below a folder; ids are paths below it."""
    if not path.is_dir():
        raise InputError(f"{path}: is not a folder of photos with XMP sidecars")
    problems = Problems(path)
    codes = ClassCodes(options.classes, problems)
    photos = image_files(path)
    rows: list[int] = []
    columns: list[int] = []
    for row, photo in enumerate(photos):
        if (beside := sidecar_of(photo)) is None:
            continue
        try:
            tags = subjects(beside)
        except InputError as error:
            problems.add(str(error).removeprefix(str(beside)).lstrip(":, "), source=beside)
            continue
        for name in tags:
            if (code := codes.code(name, None)) is not None:
                rows.append(row)
                columns.append(code)
    ids = id_array([photo.relative_to(path).as_posix() for photo in photos], path)
    check_ids(ids, problems)
    problems.raise_if_any()
    classes, final = codes.in_order()
    if not classes:
        raise InputError(f"{path}: no photo has an XMP sidecar with a tag in it")
    entries = final[np.array(columns, dtype=np.int64)]
    labels = LabelMatrix.from_entries(np.array(rows), entries, 1, (len(ids), len(classes)))
    tagged = len({*rows})
    note = f"labels are the tags in the XMP sidecars of {tagged} of {len(ids)} photos"
    return Dataset(LabelTable(ids, classes, labels, root=path, notes=(note,)), name=path.name)
