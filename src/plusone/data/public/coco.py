"""MS-COCO 2014 as downloaded: two instance files, and a folder of images for each.

The official train file is the training set and the official val file the test set, as in the
papers. Images without annotation are left out, which gives the published 82,081 and 40,137.
Classes are in the order of category ids; items are sorted by their image number as text.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plusone.data.formats import read as read_form
from plusone.data.matrix import LabelMatrix
from plusone.data.public.base import Expected, PublicData, first_of
from plusone.data.table import LabelTable
from plusone.errors import InputError

TITLE = "MS-COCO 2014"
PAGE = "cocodataset.org (train2014.zip, val2014.zip, annotations_trainval2014.zip)"
PARTS = (("train2014", "train"), ("val2014", "test"))


def read(root: Path) -> LabelTable:
    """Reads `annotations/instances_{train,val}2014.json`; ids begin with the images' folder."""
    files = [
        first_of([root / "annotations" / f"instances_{part}.json"], title=TITLE, page=PAGE)
        for part, _ in PARTS
    ]
    tables = [read_form(file, format="coco", check_images=False).table for file in files]
    for file, table in zip(files[1:], tables[1:], strict=True):
        if table.classes != tables[0].classes:
            raise InputError(f"{file}: has other categories than {files[0].name}")
    truth = LabelMatrix.concatenate([table.labels for table in tables])
    notes = (
        f"{file.name}: {note}"
        for file, table in zip(files, tables, strict=True)
        for note in table.notes
        if "without annotation" in note
    )
    parts = zip(PARTS, tables, strict=True)
    return LabelTable.complete(
        [f"{part}/{name}" for (part, _), table in parts for name in table.ids],
        tables[0].classes,
        truth,
        split=np.repeat([split for _, split in PARTS], [len(table) for table in tables]),
        root=root,
        notes=(*notes, "the official val file is the split 'test', as in the papers"),
    )


COCO = PublicData(
    TITLE,
    PAGE,
    read,
    Expected(82081, 40137, 80, 2.94, (18, 1, 2.9), {5: (1.8, 4.4), 10: (2.1, 4.0), 25: (2.4, 3.6)}),
)
