"""The embedded scenes as files on disk: an example of a user's own folder of images."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
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

    Args:
        folder: The folder; it must be empty or not exist yet.
        items: Number of labelled images.
        audited: Number of them in `audit.csv`.
        new: Number of images without a label.
        seed: Seed of the simulated annotator and of the audit.
        tick: Called once per image.
    """
    scenes = load_digits_scenes()
    train, test = _rows(scenes, "train", items), _rows(scenes, "test", new)
    if not 0 <= audited <= items:
        raise InputError(f"cannot audit {audited} of {items} items")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already; choose a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".example.", dir=folder.parent) as temporary:
        example = Path(temporary) / "example"
        _write(example, scenes, train, test, audited, seed, tick)
        example.rename(folder)


def _write(
    folder: Path,
    scenes: Digits,
    train: Rows,
    test: Rows,
    audited: int,
    seed: int,
    tick: Callable[[], None] | None,
) -> None:
    classes, truth = _by_name(scenes)
    seen = observe(truth[train], "single", seed)
    names = [
        f"{classes[seen[place].argmax()]}/scene-{row:05d}.png" for place, row in enumerate(train)
    ]
    fresh = [f"new/scene-{row:05d}.png" for row in test]
    files = [*(f"photos/{name}" for name in names), *fresh]
    for name, row in zip(files, [*train, *test], strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(scenes.images[row]).save(folder / name)
        if tick is not None:
            tick()
    table = LabelTable(
        ids=np.array(files[: len(train)]),
        classes=classes,
        labels=LabelMatrix.from_dense(seen),
        root=folder,
    )
    write(table, folder / "labels.csv")
    x = random_conv_features(scenes.images[train])
    write_features(folder / "embeddings.npz", table.ids, x, {"made by": "plusone example"})
    chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:audited])
    for name, ids, rows in (
        ("audit.csv", np.array(names)[chosen], train[chosen]),
        ("test.csv", np.array(fresh), test),
    ):
        labels = LabelMatrix.from_dense(truth[rows], default=-1)
        write(LabelTable.complete(ids, classes, labels), folder / name)


def _rows(scenes: Digits, split: str, count: int) -> Rows:
    """The first scenes of a split."""
    rows = np.flatnonzero(scenes.split == SPLITS.index(split))
    if not 1 <= count <= len(rows):
        raise InputError(f"between 1 and {len(rows)} images can be written here, not {count}")
    return rows[:count]


def _by_name(scenes: Digits) -> tuple[tuple[str, ...], npt.NDArray[np.int8]]:
    """Class names in alphabetical order, as for folders, and the truth in that order."""
    order = sorted(range(len(scenes.classes)), key=lambda label: scenes.classes[label])
    return tuple(scenes.classes[label] for label in order), scenes.truth[:, order].astype(np.int8)
