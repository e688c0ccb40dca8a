"""`prepare voc`: the devkit as downloaded, and what is common to all data sets."""

from pathlib import Path

import pytest

from plusone.data.formats import read, write
from plusone.data.public import PUBLIC, prepare
from plusone.errors import InputError

ITEMS = {"train": {"a": "cat", "b": "dog"}, "val": {"c": "dog", "d": "cat"}}


def devkit(root: Path, year: str = "VOC2012", *, images: str = "abcd") -> Path:
    lists = root / "VOCdevkit" / year / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for split, items in ITEMS.items():
        for name in ("cat", "dog"):
            lines = (f"{item} {1 if label == name else -1:2d}\n" for item, label in items.items())
            (lists / f"{name}_{split}.txt").write_text("".join(lines))
    folder = root / "VOCdevkit" / year / "JPEGImages"
    folder.mkdir()
    for image in images:
        (folder / f"{image}.jpg").write_bytes(b"")
    return lists


def test_root_may_be_the_year_the_devkit_or_the_folder_around_it(tmp_path: Path) -> None:
    devkit(tmp_path)
    devkit(tmp_path, "VOC2007")  # another year beside it does not matter
    for root in (tmp_path, tmp_path / "VOCdevkit", tmp_path / "VOCdevkit" / "VOC2012"):
        made = prepare("voc", root)
        assert made.table.root == tmp_path / "VOCdevkit" / "VOC2012" / "JPEGImages"
        assert made.table.ids.tolist() == ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
        assert made.table.split is not None
        assert made.table.split.tolist() == ["train", "train", "test", "test"]
        assert made.table.labels.dense().tolist() == [[1, -1], [-1, 1], [-1, 1], [1, -1]]
        assert made.table.is_complete


def test_counts_are_compared(tmp_path: Path) -> None:
    devkit(tmp_path)
    made = prepare("voc", tmp_path)
    found = {count.what: (count.found, count.expected, count.fits) for count in made.counts}
    assert found == {
        "train items": (2, 5717, False),
        "test items": (2, 5823, False),
        "classes": (2, 20, False),
        "positives per train item": (1.0, 1.46, False),
    }
    assert made.differences == made.counts
    assert made.counts[0].sentence == "train items: 2 found, 5,717 published"


def test_own_test_lists_are_left_out(tmp_path: Path) -> None:
    lists = devkit(tmp_path, images="abcde")
    for name in ("cat", "dog"):
        (lists / f"{name}_test.txt").write_text("e -1\n")
    table = prepare("voc", tmp_path).table
    assert table.ids.tolist() == ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    assert table.split is not None
    assert table.split.tolist() == ["train", "train", "test", "test"]
    assert "test lists are not read" in " ".join(table.notes)


def test_missing_images(tmp_path: Path) -> None:
    devkit(tmp_path, images="acd")
    folder = tmp_path / "VOCdevkit" / "VOC2012" / "JPEGImages"
    with pytest.raises(InputError) as caught:
        prepare("voc", tmp_path)
    assert str(caught.value).startswith(f"{folder / 'b.jpg'}: is missing, one of 1 missing images")
    assert "host.robots.ox.ac.uk/pascal/VOC" in str(caught.value)
    dropped = prepare("voc", tmp_path, missing="drop").table
    assert dropped.ids.tolist() == ["a.jpg", "c.jpg", "d.jpg"]
    assert dropped.labels.dense().tolist() == [[1, -1], [-1, 1], [1, -1]]
    assert "1 of 4 items were dropped" in " ".join(dropped.notes)
    kept = prepare("voc", tmp_path, missing="keep").table
    assert len(kept) == 4
    assert kept.root is None  # a table with some images would be refused by whoever reads it
    assert "for training on features" in " ".join(kept.notes)


def test_without_any_image_only_keeping_works(tmp_path: Path) -> None:
    devkit(tmp_path, images="")
    folder = tmp_path / "VOCdevkit" / "VOC2012" / "JPEGImages"
    for way in ("refuse", "drop"):
        with pytest.raises(InputError, match=r"a\.jpg: is missing, and so is every other image"):
            prepare("voc", tmp_path, missing=way)
    folder.rmdir()
    with pytest.raises(InputError, match="JPEGImages: is missing, and so is every other image"):
        prepare("voc", tmp_path)
    table = prepare("voc", tmp_path, missing="keep").table
    assert table.root is None
    assert "4 of 4 items have no image file" in " ".join(table.notes)


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_missing_is_said_with_where_to_get_it(tmp_path: Path, name: str) -> None:
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError) as caught:
            prepare(name, root)
        assert str(caught.value).startswith(str(root))
        assert PUBLIC[name].title in str(caught.value)
        assert f"from {PUBLIC[name].page}" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_wrong_words_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'imagenet' is no data set; choose one of voc, coco"):
        prepare("imagenet", tmp_path)
    with pytest.raises(InputError, match="'random' is no split; choose one of papers, official"):
        prepare("voc", tmp_path, split="random")
    with pytest.raises(InputError, match=r"'ignore' is no choice of missing images; .* refuse"):
        prepare("voc", tmp_path, missing="ignore")


def test_bad_rows_and_names_that_leave_the_folder(tmp_path: Path) -> None:
    lists = devkit(tmp_path)
    (lists / "cat_train.txt").write_text("a 7\nb -1\n")
    with pytest.raises(InputError, match=r"cat_train.txt, row 1: state '7' is not 1, 0 or -1"):
        prepare("voc", tmp_path)
    for name in ("cat", "dog"):
        (lists / f"{name}_train.txt").write_text("../a 1\nb -1\n")
    with pytest.raises(InputError, match=r"id '\.\./a\.jpg' leaves its folder"):
        prepare("voc", tmp_path)


def test_real_voc_agrees_with_the_papers(shared: Path, tmp_path: Path) -> None:
    made = prepare("voc", shared / "data" / "VOCdevkit")
    assert made.differences == ()
    assert [count.found for count in made.counts] == [5717, 5823, 20, 1.457]
    write(made.table, tmp_path / "labels.npz")
    again = read(tmp_path / "labels.npz").table
    assert again.labels.digest() == made.table.labels.digest()
    assert again.root is not None
    assert again.path(0).is_file()
    plain = read(shared / "data" / "VOCdevkit").table
    assert plain.ids.tolist() == again.ids.tolist()
    assert plain.labels.digest() == again.labels.digest()
