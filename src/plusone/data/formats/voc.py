"""PASCAL VOC devkit: `VOCxxxx/ImageSets/Main/<class>_<split>.txt`, lines `image state`.

State 1 is positive; -1 and 0 (difficult) are not, as in the published protocol. The official
`val` is the papers' test set and becomes the split "test", unless the devkit has its own `test`
lists. `trainval` lists are not read.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from plusone.data.checks import check_ids, id_array, short
from plusone.data.dataset import Dataset
from plusone.data.formats.base import ReadOptions, images_root
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems

LISTS = Path("ImageSets") / "Main"
CLASS_FILE = re.compile(r"(.+)_(train|val|test)\.txt")


def detects(path: Path) -> bool:
    """A folder with `ImageSets/Main` in it or in one of its `VOCxxxx` folders."""
    return bool(_years(path))


def _years(path: Path) -> list[Path]:
    if (path / LISTS).is_dir():
        return [path]
    return sorted(year.parent.parent for year in path.glob(f"VOC*/{LISTS.as_posix()}"))


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads one year of the devkit; all labels are known."""
    years = _years(path)
    if len(years) != 1:
        names_of_years = ", ".join(year.name for year in years) or "none"
        raise InputError(
            f"{path}: needs exactly one VOC folder with {LISTS} (found: {names_of_years})"
        )
    lists = years[0] / LISTS
    files = {
        (match[1], match[2]): file
        for file in sorted(lists.iterdir())
        if (match := CLASS_FILE.fullmatch(file.name))
    }
    classes = options.classes or tuple(sorted({name for name, _ in files}))
    splits = [name for name in ("train", "val", "test") if any(s == name for _, s in files)]
    if not files:
        raise InputError(f"{lists}: has no <class>_<split>.txt file in it")
    problems = Problems(lists)
    ids: list[str] = []
    kinds: list[str] = []
    rows: list[int] = []
    columns: list[int] = []
    for split in splits:
        states = {
            name: _states(files[name, split], problems)
            for name in classes
            if (name, split) in files
        }
        for name in classes:
            if name not in states:
                problems.add(f"{name}_{split}.txt is missing")
        every = sorted(set().union(*states.values()))
        row_of = {image: row for row, image in enumerate(every, len(ids))}
        for column, (name, state_of) in enumerate(states.items()):
            if missing := len(every) - len(state_of):
                first = next(image for image in every if image not in state_of)
                more = f" and {missing - 1} more" if missing > 1 else ""
                what = f"has no line for image {short(first)}{more}"
                problems.add(what, source=files[name, split])
            hits = sorted(row_of[image] for image, state in state_of.items() if state == 1)
            rows.extend(hits)
            columns.extend([column] * len(hits))
        ids.extend(f"{image}.jpg" for image in every)
        kind = "test" if split == "val" and "test" not in splits else split
        kinds.extend([kind] * len(every))
    names = id_array(ids, path)
    check_ids(names, problems)
    image_folder, notes = images_root(names, years[0] / "JPEGImages", options, problems)
    problems.raise_if_any()
    if "val" in splits and "test" not in splits:
        notes = (*notes, "the official val lists are the split 'test', as in the papers")
    truth = LabelMatrix.from_entries(rows, columns, 1, (len(ids), len(classes)), default=-1)
    table = LabelTable.complete(
        names,
        classes,
        truth,
        split=np.asarray(kinds, dtype="<U5"),
        root=image_folder,
        notes=notes,
    )
    return Dataset(table, name=years[0].resolve().name)


def _states(file: Path, problems: Problems) -> dict[str, int]:
    states: dict[str, int] = {}
    for line, raw in enumerate(file.read_bytes().splitlines(), 1):
        cells = raw.decode("utf-8", "replace").split()
        if not cells:
            continue
        if len(cells) != 2:
            problems.add(
                f"has {len(cells)} columns, expected image and state", row=line, source=file
            )
        elif cells[1] not in ("1", "0", "-1"):
            problems.add(f"state {cells[1]!r} is not 1, 0 or -1", row=line, source=file)
        elif cells[0] in states:
            problems.add(f"image {cells[0]!r} occurs twice", row=line, source=file)
        else:
            states[cells[0]] = int(cells[1])
    return states
