"""`prepare coco`: small trees of the real layout, and the official labels."""

import json
from pathlib import Path

import numpy as np
import pytest

from plusone.data.public import prepare
from plusone.errors import InputError

# The ids of COCO's 80 categories: 1 to 90 without these.
CATEGORIES = sorted(set(range(1, 91)) - {12, 26, 29, 30, 45, 66, 68, 69, 71, 83})

Pairs = list[tuple[int, int]]


def instances(part: str, images: list[int], pairs: Pairs, categories: list[int]) -> str:
    return json.dumps(
        {
            "images": [
                {"id": number, "file_name": f"COCO_{part}_{number:012d}.jpg"} for number in images
            ],
            "annotations": [{"image_id": i, "category_id": c, "iscrowd": 0} for i, c in pairs],
            "categories": [{"id": number, "name": f"c{number}"} for number in categories],
        }
    )


def tree(root: Path) -> Path:
    """Three training images (one without annotation), one validation image."""
    notes = root / "annotations"
    notes.mkdir()
    (notes / "instances_train2014.json").write_text(
        instances("train2014", [9, 10, 30], [(9, 90), (10, 13), (10, 1), (9, 90)], [90, 1, 13])
    )
    (notes / "instances_val2014.json").write_text(
        instances("val2014", [42], [(42, 13)], [1, 13, 90])
    )
    (notes / "instances_train2017.json").write_text("another year, which is not read")
    (notes / "captions_train2014.json").write_text("{}")
    for part, numbers in (("train2014", (9, 10, 30)), ("val2014", (42,))):
        (root / part).mkdir()
        for number in numbers:
            (root / part / f"COCO_{part}_{number:012d}.jpg").write_bytes(b"")
    return notes


def test_layout(tmp_path: Path) -> None:
    tree(tmp_path)
    table = prepare("coco", tmp_path).table
    assert table.classes == ("c1", "c13", "c90")  # by id, which is not contiguous
    assert table.ids.tolist() == [  # '10' comes before '9': the order of the published protocol
        "train2014/COCO_train2014_000000000010.jpg",
        "train2014/COCO_train2014_000000000009.jpg",
        "val2014/COCO_val2014_000000000042.jpg",
    ]
    assert table.labels.dense().tolist() == [[1, 1, -1], [-1, -1, 1], [-1, 1, -1]]
    assert table.split is not None
    assert table.split.tolist() == ["train", "train", "test"]
    assert table.path(2).is_file()
    assert "instances_train2014.json: 1 images without annotation were left out" in table.notes


def test_what_is_missing(tmp_path: Path) -> None:
    notes = tree(tmp_path)
    image = tmp_path / "val2014" / "COCO_val2014_000000000042.jpg"
    image.unlink()
    with pytest.raises(InputError, match=rf"{image}: is missing, .* cocodataset\.org"):
        prepare("coco", tmp_path)
    assert len(prepare("coco", tmp_path, missing="drop").table) == 2
    (notes / "instances_val2014.json").unlink()
    with pytest.raises(InputError) as caught:
        prepare("coco", tmp_path)
    assert str(caught.value) == (
        f"{notes / 'instances_val2014.json'}: is missing; MS-COCO 2014 is obtained from "
        "cocodataset.org (train2014.zip, val2014.zip, annotations_trainval2014.zip)"
    )


def test_what_is_refused(tmp_path: Path) -> None:
    file = tree(tmp_path) / "instances_val2014.json"
    good = file.read_text()
    file.write_text(good.replace("COCO_val2014_000000000042", "../../secret"))
    with pytest.raises(InputError, match=rf"{file}: id '\.\./\.\./secret\.jpg' leaves its folder"):
        prepare("coco", tmp_path)
    file.write_text(good.replace('"c90"', '"zebra"'))
    with pytest.raises(InputError, match=rf"{file}: has other categories than instances_train2014"):
        prepare("coco", tmp_path)
    file.write_text(good[:-9])
    with pytest.raises(InputError, match=rf"{file}, row 1, column \d+: is not JSON"):
        prepare("coco", tmp_path)


@pytest.mark.slow
def test_official_labels_come_in_the_published_order(shared: Path, tmp_path: Path) -> None:
    """The official labels, written as COCO does and shuffled, give the published matrix back."""
    with np.load(shared / "data" / "coco2014" / "coco_train2014.npz") as file:
        numbers, labels = file["image_ids"], file["labels"]
    images, columns = np.nonzero(labels)
    pairs = [
        (int(number), CATEGORIES[column])
        for number, column in zip(numbers[images], columns, strict=True)
    ]
    rng = np.random.default_rng(0)
    rng.shuffle(pairs)
    notes = tmp_path / "annotations"
    notes.mkdir()
    shuffled = rng.permutation(numbers).tolist()
    (notes / "instances_train2014.json").write_text(
        instances("train2014", [*shuffled, 10**9], pairs, CATEGORIES[::-1])
    )
    (notes / "instances_val2014.json").write_text(instances("val2014", [42], [(42, 1)], CATEGORIES))
    made = prepare("coco", tmp_path, missing="keep")
    train = made.table.take(made.table.rows_of("train"))
    assert [int(name[-16:-4]) for name in train.ids] == numbers.tolist()
    assert (train.labels.dense() == np.where(labels, 1, -1)).all()
    assert [count.what for count in made.differences] == ["test items"]
