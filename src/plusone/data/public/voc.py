"""PASCAL VOC 2012 as downloaded: `VOCdevkit/VOC2012`, its class lists and `JPEGImages`.

The official train list is the training set and the official val list the test set, as in the
papers. Validation items are held out when training starts, not here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from plusone.data.formats import read as read_form
from plusone.data.formats.voc import LISTS
from plusone.data.public.base import Expected, PublicData, first_of
from plusone.data.table import LabelTable

TITLE = "PASCAL VOC 2012"
PAGE = "host.robots.ox.ac.uk/pascal/VOC/voc2012 (VOCtrainval_11-May-2012.tar)"
HOMES = ("VOC2012", "VOCdevkit/VOC2012")


def read(root: Path) -> LabelTable:
    """Reads the devkit; `root` is `VOC2012`, `VOCdevkit` or the folder around it."""
    places = [root / home / LISTS for home in HOMES]
    lists = root / LISTS
    if not lists.is_dir():
        lists = first_of(places, title=TITLE, page=PAGE)
    table = read_form(lists.parent.parent, format="voc", check_images=False).table
    # Some devkits have test lists; they are not part of the papers' protocol.
    if len(table.rows_of("val")):
        table = table.take(np.union1d(table.rows_of("train"), table.rows_of("val")))
        note = (
            "the official val lists are the split 'test', as in the papers; test lists are not read"
        )
        split = np.where(table.split == "val", "test", "train")
        table = replace(table, split=split, notes=(*table.notes, note))
    return table


VOC = PublicData(
    TITLE,
    PAGE,
    read,
    Expected(5717, 5823, 20, 1.46, (5, 1, 1.5), {5: (1.0, 2.0), 10: (1.1, 1.9), 25: (1.2, 1.7)}),
)
