"""Drawn scenes as files on disk: an example of a user's own folder of photos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.digits import random_conv_features
from plusone.data.features import write_features
from plusone.data.formats import write
from plusone.data.matrix import LabelMatrix
from plusone.data.scenes import CLASSES, draw_scenes, grey
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.files import naming, part_folder

MOST = 10_000  # images with one label, and new ones


def write_example(
    folder: Path,
    items: int = 1000,
    *,
    audited: int = 100,
    new: int = 50,
    seed: int = 0,
    tick: Callable[[], None] | None = None,
) -> None:
    """Writes images with one label each, and the files that go with them; all or nothing.

    | file | content |
    | --- | --- |
    | `photos/CLASS/*.jpg` | images, in the folder of their one seen class |
    | `labels.csv` | the same labels as a table, `image,labels` |
    | `embeddings.npz` | a feature vector per image, in the order of the table |
    | `audit.csv` | all labels of a random sample of them, with paths relative to `photos` |
    | `test.csv` | all labels of the images in `new` |
    | `new/*.jpg` | images without labels |
    """
    if not 0 <= audited <= items:
        raise InputError(f"cannot audit {audited} of {items} items")
    table, files = example_table(items, new, seed, folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already; choose a new folder")
    with part_folder(folder) as temporary:
        example = temporary / "example"
        for name, file in zip(table.ids.tolist(), files, strict=True):
            with naming(folder / name):
                (example / name).parent.mkdir(parents=True, exist_ok=True)
                (example / name).write_bytes(file)
            if tick is not None:
                tick()
        train, test = table.rows_of("train"), table.rows_of("test")
        seen = replace(table.take(train), truth=None, split=None, root=example)
        write(seen, example / "labels.csv")
        x = example_features(files[:items])
        write_features(example / "embeddings.npz", seen.ids, x, {"made by": "plusone example"})
        chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:audited])
        below = np.array([name.removeprefix("photos/") for name in table.ids.tolist()])
        assert table.truth is not None
        for name, rows in (("audit.csv", train[chosen]), ("test.csv", test)):
            complete = LabelTable.complete(below[rows], table.classes, table.truth.take(rows))
            write(complete, example / name)
        example.rename(folder)


def example_table(
    items: int, new: int, seed: int, root: Path
) -> tuple[LabelTable, tuple[bytes, ...]]:
    """The labels of an example with its truth, and the file of each item.

    The one label of an item is drawn by size: twice as large is twice as likely. The new images are
    the split "test", with all their labels.
    """
    if not (1 <= items <= MOST and 1 <= new <= MOST):
        raise InputError(f"between 1 and {MOST} images can be written here, not {items} and {new}")
    files, shares = draw_scenes(0, items)
    new_files, new_shares = draw_scenes(MOST, new)
    order = np.argsort(CLASSES)  # alphabetical, as for folders
    classes = tuple(CLASSES[label] for label in order)
    share = np.concatenate([shares, new_shares])[:, order]
    states = np.where(share > 0, 1, -1).astype(np.int8)
    seen = states.copy()
    seen[:items] = 0
    ends = share[:items].cumsum(axis=1) / share[:items].sum(axis=1, keepdims=True)
    tag = (np.random.default_rng(seed).random((items, 1)) < ends).argmax(axis=1)
    seen[np.arange(items), tag] = 1
    names = [f"photos/{classes[label]}/scene-{row:05d}.jpg" for row, label in enumerate(tag)]
    names += [f"new/scene-{MOST + row:05d}.jpg" for row in range(new)]
    table = LabelTable(
        ids=np.array(names),
        classes=classes,
        labels=LabelMatrix.from_dense(seen),
        truth=LabelMatrix.from_dense(states, default=-1),
        split=np.array(["train"] * items + ["test"] * new),
        root=root,
    )
    return table, files + new_files


def example_features(files: Sequence[bytes]) -> npt.NDArray[np.float32]:
    """A vector of each scene, by a fixed random convolution, `[N, 1024]`."""
    return random_conv_features(np.stack([grey(file) for file in files]))
