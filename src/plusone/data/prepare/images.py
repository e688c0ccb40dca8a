"""Which items of a table have their image file, and what to do about those that have not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.table import LabelTable, Strings
from plusone.errors import InputError

WAYS = ("refuse", "drop", "keep")


def settle_images(table: LabelTable, way: str, *, title: str, page: str) -> LabelTable:
    """The table with its missing images dealt with, and a note that counts them.

    Args:
        table: A table whose `root` is where the images belong.
        way: "refuse" them, "drop" their items, or "keep" the items (to train on features).
        title: Name of the data set.
        page: Where it is obtained.
    """
    root = table.root
    if root is None or not len(table):
        return table
    missing = missing_rows(table.ids, root)
    if not len(missing):
        return table
    everything = len(missing) == len(table)
    if way == "keep":
        note = f"{len(missing):,} of {len(table):,} items have no image file below {root}; kept"
        return replace(table, root=None if everything else root, notes=(*table.notes, note))
    first = root / str(table.ids[missing[0]])
    if everything:
        raise InputError(
            f"{first if root.is_dir() else root}: is missing, and so is every other image; {title} "
            f"is obtained from {page} (--missing keep writes the labels alone)"
        )
    if way == "drop":
        note = f"{len(missing):,} of {len(table):,} items were dropped: no image below {root}"
        return replace(
            table.take(np.setdiff1d(np.arange(len(table)), missing)), notes=(*table.notes, note)
        )
    raise InputError(
        f"{first}: is missing, as are {len(missing) - 1:,} other images of {len(table):,}; "
        f"{title} is obtained from {page} (--missing drop leaves these items out, "
        "--missing keep keeps them for training on features)"
    )


def missing_rows(ids: Strings, root: Path) -> npt.NDArray[np.int64]:
    """Rows of the ids that name no file below `root`, int64, ascending.

    Folders are listed once: asking for each of 270,000 files takes far longer.
    """
    listings: dict[str, frozenset[str]] = {}
    missing = []
    for row, name in enumerate(ids.tolist()):
        folder, _, file = name.rpartition("/")
        if folder not in listings:
            try:
                listings[folder] = frozenset(os.listdir(root / folder))
            except OSError:
                listings[folder] = frozenset()
        if file not in listings[folder]:
            missing.append(row)
    return np.asarray(missing, dtype=np.int64)
