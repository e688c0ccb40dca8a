"""CUB-200-2011 as downloaded: `images.txt`, the split, and 312 attributes of every image.

The classes are the attributes, not the species, as in the papers; an attribute applies if its
third column is 1, whatever the certainty. Lines of the attribute file may have more columns than
the documented five (some in the public file do): only the first three are read. Items are in the
order of `images.txt`, training items first.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.checks import LONGEST_ID, check_ids
from plusone.data.matrix import LabelMatrix
from plusone.data.public.base import Expected, PublicData, check_classes, first_of, numbered
from plusone.data.table import LabelTable
from plusone.errors import Problems

TITLE = "CUB-200-2011"
PAGE = "vision.caltech.edu/datasets/cub_200_2011 (CUB_200_2011.tgz)"
ATTRIBUTES = Path("attributes") / "attributes.txt"
LABELS = Path("attributes") / "image_attribute_labels.txt"
COLUMNS = 5
SPLITS = {"1": "train", "0": "test"}
ABSENT = 2


def read(root: Path) -> LabelTable:
    """Reads the lists; `root` is `CUB_200_2011` or the folder around it."""
    home = root if (root / "images.txt").exists() else root / "CUB_200_2011"
    images_file, split_file, label_file, names_file = (
        first_of(places, title=TITLE, page=PAGE)
        for places in (
            [home / "images.txt"],
            [home / "train_test_split.txt"],
            [home / LABELS],
            [home.absolute().parent / "attributes.txt", home / "attributes.txt", home / ATTRIBUTES],
        )
    )
    problems = Problems(root)
    images = numbered(images_file, problems)
    splits = numbered(split_file, problems)
    attributes = numbered(names_file, problems)
    check_classes(names_file, list(attributes.values()), problems)
    problems.raise_if_any()
    of_file = Problems(images_file)
    ids = np.asarray([name[:LONGEST_ID] for _, name in images.values()], dtype=np.str_)
    check_ids(ids, of_file, [row for row, _ in images.values()])
    of_file.raise_if_any()
    split = _splits(images, splits, split_file, problems)
    truth, odd = _labels(label_file, list(images), list(attributes), problems)
    problems.raise_if_any()
    notes = (
        (f"{odd:,} lines of {label_file.name} have other than {COLUMNS} columns",) if odd else ()
    )
    table = LabelTable.complete(
        ids,
        [name for _, name in attributes.values()],
        LabelMatrix.from_dense(truth, default=-1),
        split=split,
        root=home / "images",
        notes=notes,
    )
    return table.take(np.concatenate([table.rows_of("train"), table.rows_of("test")]))


def _splits(
    images: dict[int, tuple[int, str]],
    splits: dict[int, tuple[int, str]],
    file: Path,
    problems: Problems,
) -> npt.NDArray[np.str_]:
    """The split of each image, `[N]`."""
    for number, (row, value) in splits.items():
        if number not in images:
            problems.add(f"image {number} is not in images.txt", row=row, source=file)
        elif value not in SPLITS:
            problems.add(f"{value!r} is not 1 (train) or 0 (test)", row=row, source=file)
    for number in images:
        if number not in splits:
            problems.add(f"has no line for image {number}", source=file)
    return np.asarray([SPLITS.get(splits.get(number, (0, ""))[1], "") for number in images])


def _labels(
    file: Path, images: list[int], attributes: list[int], problems: Problems
) -> tuple[npt.NDArray[np.int8], int]:
    """The truth `[N, L]` in 1 and 0, and how many lines have an unusual number of columns."""
    row_of = {b"%d" % number: row for row, number in enumerate(images)}
    column_of = {b"%d" % number: column for column, number in enumerate(attributes)}
    flat, width = bytearray([ABSENT]) * (len(images) * len(attributes)), len(attributes)
    odd = 0
    with file.open("rb") as lines:
        for line, raw in enumerate(lines, 1):
            cells = raw.split()
            if not cells:
                continue
            odd += len(cells) != COLUMNS
            row, column = row_of.get(cells[0]), column_of.get(b"".join(cells[1:2]))
            fault = ""
            if row is None or column is None:
                fault = "is not an image and an attribute of the lists"
            elif cells[2:3] not in ([b"1"], [b"0"]):
                fault = "has no 1 or 0 in its third column"
            elif flat[row * width + column] != ABSENT:
                fault = "gives an image and attribute again"
            else:
                flat[row * width + column] = cells[2] == b"1"
            if fault:
                shown = raw.strip()[:80].decode("utf-8", "backslashreplace")
                problems.add(f"{shown!r} {fault}", row=line, source=file)
    truth = np.frombuffer(flat, dtype=np.int8).reshape(len(images), width)
    for row, column in zip(*np.nonzero(truth == ABSENT), strict=True):
        problems.add(
            f"has no line for image {images[row]}, attribute {attributes[column]}", source=file
        )
    return truth, odd


CUB = PublicData(
    TITLE,
    PAGE,
    read,
    Expected(
        5994,
        5794,
        312,
        31.4,
        (71, 3, 31.4),
        {5: (25.2, 37.8), 10: (27.0, 35.9), 25: (28.6, 34.2)},
        within=0.05,
    ),
)
