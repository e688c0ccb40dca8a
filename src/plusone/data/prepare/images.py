"""Which items of a table have their image file, and what to do about those that have not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from plusone.data.formats.checks import missing_images
from plusone.data.table import LabelTable
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
    missing = np.asarray(missing_images(table.ids, root), dtype=np.int64)
    if not len(missing):
        return table
    everything = len(missing) == len(table)
    if way == "keep":
        note = f"{len(missing):,} of {len(table):,} items have no image file below {root}; "
        note += "all were kept, for training on features"
        return replace(table, root=None, notes=(*table.notes, note))
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
        f"{first}: is missing, one of {len(missing):,} missing images of {len(table):,}; "
        f"{title} is obtained from {page} (--missing drop leaves these items out, "
        "--missing keep keeps them for training on features)"
    )
