"""The embedded scenes as files on disk: an example of a user's own folder of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from plusone.data.digits import SPLITS, Digits, load_digits_scenes, random_conv_features
from plusone.data.features import write_features
from plusone.data.formats import write
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.files import naming, part_folder

Rows = npt.NDArray[np.int64]


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
    | `photos/CLASS/*.png` | images, in the folder of their one seen class |
    | `labels.csv` | the same labels as a table, `image,labels` |
    | `embeddings.npz` | a feature vector per image, in the order of the table |
    | `audit.csv` | all labels of a random sample of them, with paths relative to `photos` |
    | `test.csv` | all labels of the images in `new` |
    | `new/*.png` | images without labels |
    """
    table, scenes = example_table(items, new, seed, folder)
    if not 0 <= audited <= items:
        raise InputError(f"cannot audit {audited} of {items} items")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already; choose a new folder")
    with part_folder(folder) as temporary:
        example = temporary / "example"
        images = load_digits_scenes().images
        for name, row in zip(table.ids.tolist(), scenes, strict=True):
            with naming(folder / name):
                (example / name).parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(images[row]).save(example / name)
            if tick is not None:
                tick()
        train, test = table.rows_of("train"), table.rows_of("test")
        seen = replace(table.take(train), truth=None, split=None, root=example)
        write(seen, example / "labels.csv")
        x = random_conv_features(images[scenes[train]])
        write_features(example / "embeddings.npz", seen.ids, x, {"made by": "plusone example"})
        chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:audited])
        below = np.array([name.removeprefix("photos/") for name in table.ids.tolist()])
        assert table.truth is not None
        for name, rows in (("audit.csv", train[chosen]), ("test.csv", test)):
            complete = LabelTable.complete(below[rows], table.classes, table.truth.take(rows))
            write(complete, example / name)
        example.rename(folder)


def example_table(items: int, new: int, seed: int, root: Path) -> tuple[LabelTable, Rows]:
    """The labels of an example with its truth, and the scene of each item.

    The new images are the split "test", with all their labels.
    """
    scenes = load_digits_scenes()
    train, test = _rows(scenes, "train", items), _rows(scenes, "test", new)
    rows = np.concatenate([train, test])
    order = np.argsort(scenes.classes)  # alphabetical, as for folders
    classes = tuple(scenes.classes[label] for label in order)
    truth = scenes.truth[:, order].astype(np.int8)
    states = np.where(truth[rows] == 1, 1, -1).astype(np.int8)
    seen = np.concatenate([observe(truth[train], "single", seed), states[items:]])
    places = [f"photos/{classes[label]}" for label in seen[:items].argmax(axis=1)] + ["new"] * new
    names = [f"{place}/scene-{row:05d}.png" for place, row in zip(places, rows, strict=True)]
    table = LabelTable(
        ids=np.array(names),
        classes=classes,
        labels=LabelMatrix.from_dense(seen),
        truth=LabelMatrix.from_dense(states, default=-1),
        split=np.array(["train"] * items + ["test"] * new),
        root=root,
    )
    return table, rows


def _rows(scenes: Digits, split: str, count: int) -> Rows:
    rows = np.flatnonzero(scenes.split == SPLITS.index(split))
    if not 1 <= count <= len(rows):
        raise InputError(f"between 1 and {len(rows)} images can be written here, not {count}")
    return rows[:count]
