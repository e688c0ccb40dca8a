"""The papers' data sets with few items, in their download layouts, and the typed tables."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
from PIL import Image

PAPERS = tomllib.loads(Path(__file__).with_name("papers.toml").read_text(encoding="utf-8"))
TRAIN, TEST, CLASSES = 40, 20, ("ant", "bee", "cat", "dog")
PARTS = {"train": range(TRAIN), "val": range(TRAIN, TRAIN + TEST)}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(TRAIN + TEST, 5)).astype(np.float32)
LABELS = np.where(X[:, :4].max(axis=1, keepdims=True) == X[:, :4], 1, (X[:, :4] > 0.5).astype(int))


def voc(root: Path) -> tuple[Path, list[str]]:
    lists = root / "VOC2012" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for part, rows in PARTS.items():
        for column, name in enumerate(CLASSES):
            lines = (f"{row:03d} {2 * LABELS[row, column] - 1}\n" for row in rows)
            (lists / f"{name}_{part}.txt").write_text("".join(lines))
    return root / "VOC2012" / "JPEGImages", [f"{row:03d}.jpg" for row in range(TRAIN + TEST)]


def coco(root: Path) -> tuple[Path, list[str]]:
    (root / "annotations").mkdir(parents=True)
    categories = [{"id": number, "name": name} for number, name in enumerate(CLASSES)]
    names = {}
    for part, rows in PARTS.items():
        files = {row: f"COCO_{part}2014_{row:012d}.jpg" for row in rows}
        names |= {row: f"{part}2014/{file}" for row, file in files.items()}
        document = {
            "images": [{"id": row, "file_name": file} for row, file in files.items()],
            "annotations": [
                {"image_id": int(row), "category_id": int(column), "iscrowd": 0}
                for row, column in np.argwhere(LABELS)
                if row in files
            ],
            "categories": categories,
        }
        (root / "annotations" / f"instances_{part}2014.json").write_text(json.dumps(document))
    return root, [names[row] for row in range(TRAIN + TEST)]


def nuswide(root: Path) -> tuple[Path, list[str]]:
    for folder in ("ImageList", "ConceptsList", "Groundtruth/TrainTestLabels"):
        (root / folder).mkdir(parents=True)
    (root / "ConceptsList" / "Concepts81.txt").write_text("\n".join(CLASSES))
    for part, rows in zip(("Train", "Test"), PARTS.values(), strict=True):
        images = "".join(f"a\\{row:04d}.jpg\n" for row in rows)
        (root / "ImageList" / f"{part}Imagelist.txt").write_text(images)
        for column, name in enumerate(CLASSES):
            cells = "".join(f"{LABELS[row, column]}\n" for row in rows)
            file = f"Labels_{name}_{part}.txt"
            (root / "Groundtruth" / "TrainTestLabels" / file).write_text(cells)
    return root / "Flickr", [f"a/{row:04d}.jpg" for row in range(TRAIN + TEST)]


def cub(root: Path) -> tuple[Path, list[str]]:
    (root / "attributes").mkdir(parents=True)
    names = [f"a/{row:04d}.jpg" for row in range(TRAIN + TEST)]
    files = {
        "images.txt": names,
        "train_test_split.txt": [int(row < TRAIN) for row in range(TRAIN + TEST)],
        "attributes/attributes.txt": CLASSES,
    }
    for file, values in files.items():
        lines = (f"{number} {value}\n" for number, value in enumerate(values, 1))
        (root / file).write_text("".join(lines))
    cells = (f"{r + 1} {c + 1} {state} 1 1.0\n" for (r, c), state in np.ndenumerate(LABELS))
    (root / "attributes" / "image_attribute_labels.txt").write_text("".join(cells))
    return root / "images", names


TREES = {"voc": voc, "coco": coco, "nuswide": nuswide, "cub": cub}


def tree(data: str, root: Path, *, images: bool = False) -> Path:
    """A data set in its download layout; returns a file with features of its items."""
    folder, names = TREES[data](root)
    for name, row in zip(names, X, strict=True) if images else ():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shade = np.clip(128 + 60 * row[:3], 0, 255).astype(np.uint8)
        Image.new("RGB", (16, 16), tuple(int(value) for value in shade)).save(path)
    features = root.with_name(f"{root.name}-features.npz")
    np.savez(features, x=X, ids=np.array(names))
    return features
