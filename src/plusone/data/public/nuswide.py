"""NUS-WIDE as downloaded: image lists, one 0/1 file per concept and part, images in `Flickr`.

The papers merge the official parts and draw the training items at random: 150,000 of the 210,260
images they had (Cole et al. 2021, section 6.1). Their draw is not published, so the same share is
drawn here with a seed. Rows without a positive are kept.

One cell of the public files is damaged: row 78,372 of `Labels_lake_Train.txt` is -1130179. It is
read as 0; any other value except 0 and 1 is refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.checks import LONGEST_ID, check_ids
from plusone.data.matrix import LabelMatrix
from plusone.data.public.base import COLE, Expected, PublicData, check_classes, first_of, text_lines
from plusone.data.table import LabelTable
from plusone.errors import Problems

TITLE = "NUS-WIDE"
PAGE = "lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html"
PARTS = (("Train", "train"), ("Test", "test"))
PER_ITEM = (11, 0, 1.9)
INTERVALS = {5: (0.8, 3.2), 10: (1.0, 2.8), 25: (1.3, 2.5)}
TRAIN_SHARE = 150_000 / 210_260
DAMAGED = ("Labels_lake_Train.txt", 78_372, b"-1130179")


def read(root: Path) -> LabelTable:
    """Reads the lists below `root`, in the official parts and the order of the lists."""
    concepts = _find(root, "ConceptsList/Concepts81.txt", "Concepts81.txt")
    problems = Problems(concepts)
    names = text_lines(concepts, problems)
    check_classes(concepts, names, problems)
    for row, name in names:
        if "/" in name or "\\" in name:  # the class name is part of a file name
            problems.add(f"class name {name!r} names another folder", row=row)
    problems.raise_if_any()
    classes = [name for _, name in names]
    ids: list[str] = []
    parts: list[LabelMatrix] = []
    notes: list[str] = []
    for part, _ in PARTS:
        images = _images(_find(root, f"ImageList/{part}Imagelist.txt", f"{part}Imagelist.txt"))
        ids += images
        parts.append(_labels(root, part, classes, len(images), notes))
    id_array = np.asarray(ids, dtype=np.str_)
    problems = Problems(root / "ImageList")
    check_ids(id_array, problems)  # each list was checked alone: this finds images in both
    problems.raise_if_any()
    flickr, other = root / "Flickr", root / "images"
    return LabelTable.complete(
        id_array,
        classes,
        LabelMatrix.concatenate(parts),
        split=np.repeat([split for _, split in PARTS], [len(part) for part in parts]),
        root=other if other.is_dir() and not flickr.is_dir() else flickr,
        notes=tuple(notes),
    )


def draw(table: LabelTable, seed: int) -> LabelTable:
    """Merges the parts and draws the papers' share for training; each part is sorted by id."""
    order = np.argsort(table.ids, kind="stable")
    train = np.zeros(len(table), dtype=bool)
    drawn = np.random.RandomState(seed).permutation(len(table))
    train[drawn[: round(TRAIN_SHARE * len(table))]] = True
    merged = table.take(np.concatenate([order[train], order[~train]]))
    note = f"official parts were merged and {train.sum():,} items drawn for training, seed {seed}"
    split = np.repeat(["train", "test"], [train.sum(), (~train).sum()])
    return replace(merged, split=split, notes=(*table.notes, note))


def _find(root: Path, *names: str) -> Path:
    return first_of([root / name for name in names], title=TITLE, page=PAGE)


def _images(file: Path) -> list[str]:
    """The images of a list, with `/` instead of the backslash between folders."""
    problems = Problems(file)
    lines = text_lines(file, problems)
    ids = [line[:LONGEST_ID].replace("\\", "/") for _, line in lines]
    check_ids(np.asarray(ids, dtype=np.str_), problems, [row for row, _ in lines])
    if not ids and not problems:
        problems.add("names no image")
    problems.raise_if_any()
    return ids


def _labels(root: Path, part: str, classes: list[str], items: int, notes: list[str]) -> LabelMatrix:
    """The truth of one part `[items, classes]`; adds a note if it has the damaged cell."""
    rows: list[npt.NDArray[np.int64]] = []
    folder = _find(root, "Groundtruth/TrainTestLabels", "TrainTestLabels")
    problems = Problems(folder)
    for name in classes:
        file = first_of([folder / f"Labels_{name}_{part}.txt"], title=TITLE, page=PAGE)
        cells = file.read_bytes().split()
        name_of_damaged, row_of_damaged, damage = DAMAGED
        if file.name == name_of_damaged and cells[row_of_damaged - 1 : row_of_damaged] == [damage]:
            cells[row_of_damaged - 1] = b"0"
            notes.append(f"{file.name}, row {row_of_damaged:,}: {damage.decode()} was read as 0")
        if len(cells) != items:
            problems.add(f"has {len(cells):,} labels for {items:,} images", source=file)
        for cell in sorted(set(cells) - {b"0", b"1"}):
            shown = cell[:80].decode("utf-8", "backslashreplace")
            row = cells.index(cell) + 1
            problems.add(f"label {shown!r} is not 0 or 1", row=row, source=file)
        rows.append(np.flatnonzero(np.asarray(cells, dtype="S2") == b"1"))
    problems.raise_if_any()
    columns = np.repeat(np.arange(len(classes)), [len(hits) for hits in rows])
    shape = (items, len(classes))
    return LabelMatrix.from_entries(np.concatenate(rows), columns, 1, shape, default=-1)


NUSWIDE = PublicData(
    TITLE,
    PAGE,
    read,
    Expected(150_000, 60_260, 81, 1.89, PER_ITEM, INTERVALS, within=0.02),
    draw=draw,
    official=Expected(126_034, 84_226, 81, None, PER_ITEM, INTERVALS, source=COLE),
    missing="drop",
)
