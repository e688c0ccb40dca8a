"""Folder per class, VOC devkit, COCO instances."""

import json
import re
import shutil
from pathlib import Path

import pytest

from plusone.data.formats import detect, read
from plusone.errors import InputError


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_folder_per_class(tmp_path: Path) -> None:
    touch(tmp_path, "dog/b.PNG", "dog/deep/a.jpg", "cat/x y.jpeg", "dog/notes.txt", "loose.jpg")
    assert detect(tmp_path) == "folders"
    table = read(tmp_path).table
    assert table.classes == ("cat", "dog")
    assert table.ids.tolist() == ["cat/x y.jpeg", "dog/b.PNG", "dog/deep/a.jpg"]
    assert table.labels.dense().tolist() == [[1, 0], [0, 1], [0, 1]]
    assert table.truth is None
    assert table.split is None
    assert table.path(1).is_file()
    assert table.notes == (
        "1 files that are not images were left out",
        "1 images outside the class folders were left out",
    )


def test_folder_per_class_below_splits(tmp_path: Path) -> None:
    touch(tmp_path, "train/dog/1.jpg", "valid/dog/1.jpg", "test/cat/2.jpg")
    table = read(tmp_path).table
    assert table.split is not None
    assert dict(zip(table.ids.tolist(), table.split.tolist(), strict=True)) == {
        "test/cat/2.jpg": "test",
        "train/dog/1.jpg": "train",
        "valid/dog/1.jpg": "val",
    }


def test_empty_and_unknown_class_folders(tmp_path: Path) -> None:
    touch(tmp_path, "dog/1.jpg", "cat/readme.txt")
    (tmp_path / "emu").mkdir()
    table = read(tmp_path).table
    assert table.classes == ("dog",)
    assert any("no image" in note and "cat, emu" in note for note in table.notes)
    with pytest.raises(InputError, match="class folder 'dog' is not in the class list"):
        read(tmp_path, classes=["cat", "emu"])
    (tmp_path / "none" / "inside").mkdir(parents=True)
    with pytest.raises(InputError, match="has no class folders in it"):
        read(tmp_path / "none" / "inside", format="folders")
    with pytest.raises(InputError, match="have no image in them"):
        read(tmp_path / "none", format="folders")


def test_an_empty_folder_hides_no_other_problem(tmp_path: Path) -> None:
    touch(tmp_path, "dog/1.jpg", "bad\nname/1.jpg")
    (tmp_path / "emu").mkdir()
    with pytest.raises(InputError, match="control character"):
        read(tmp_path)


def test_a_photo_in_two_folders_is_one_item_with_two_labels(tmp_path: Path) -> None:
    touch(tmp_path, "dog/1.jpg", "dog/2.jpg", "cat/other.jpg", "sea/1.jpg", "cat/3.jpg")
    for name in ("dog/1.jpg", "cat/other.jpg", "sea/1.jpg", "sea/again.jpg"):
        (tmp_path / name).write_bytes(b"the same")
    (tmp_path / "dog/2.jpg").write_bytes(b"not same")  # of the same size
    table = read(tmp_path).table
    assert table.ids.tolist() == ["cat/3.jpg", "cat/other.jpg", "dog/2.jpg"]
    assert table.classes == ("cat", "dog", "sea")
    assert table.labels.dense().tolist() == [[1, 0, 0], [1, 1, 1], [0, 1, 0]]
    assert any("second folder" in note for note in table.notes)
    splits = tmp_path / "splits"
    touch(splits, "train/dog/1.jpg", "test/cat/1.jpg")
    for file in splits.rglob("*.jpg"):
        file.write_bytes(b"the same")
    assert len(read(splits).table) == 2


XMP = """<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="{kit}">
 <r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <r:Description xmlns:d="http://purl.org/dc/elements/1.1/">
   <d:creator><r:Seq><r:li>Ann</r:li></r:Seq></d:creator>
   <d:subject><r:Bag>{tags}</r:Bag></d:subject>
  </r:Description>
 </r:RDF>
</x:xmpmeta>"""


def sidecar(*tags: str, kit: str = "XMP Core 6.0") -> str:
    return XMP.format(kit=kit, tags="".join(f"<r:li>{tag}</r:li>\n" for tag in tags))


def test_tags_in_sidecars_of_photo_programs(tmp_path: Path) -> None:
    touch(tmp_path, "2023/1.jpg", "2023/2.jpg", "2024/3.jpg", "2024/4.jpg")
    (tmp_path / "2023/1.jpg.xmp").write_text(sidecar("dog", " Salt &amp; Sea", "dog"))
    (tmp_path / "2023/2.xmp").write_text(sidecar("caf\u00e9"), encoding="utf-8")
    (tmp_path / "2024/3.jpg.xmp").write_text(sidecar("a prediction", kit="plusone"))
    table = read(tmp_path, format="xmp").table
    assert table.ids.tolist() == ["2023/1.jpg", "2023/2.jpg", "2024/3.jpg", "2024/4.jpg"]
    assert table.classes == ("Salt & Sea", "caf\u00e9", "dog")
    assert table.labels.dense().tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert detect(tmp_path / "2023") == "xmp"
    assert any("--format xmp" in note for note in read(tmp_path).table.notes)  # folders of years
    shutil.copytree(tmp_path / "2024", tmp_path / "copy" / "dog")  # whose sidecars are our own
    assert not any("--format xmp" in note for note in read(tmp_path / "copy").table.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<a", "1.jpg.xmp: row 1"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "1.jpg.xmp: has a document type"),
        ("<a>" * 100_000, "1.jpg.xmp: row 1"),
    ],
)
def test_bad_sidecars_are_named(tmp_path: Path, text: str, said: str) -> None:
    touch(tmp_path, "1.jpg", "2.jpg")
    (tmp_path / "1.jpg.xmp").write_text(text)
    (tmp_path / "2.jpg.xmp").write_text(sidecar("dog"))
    with pytest.raises(InputError, match=re.escape(said)):
        read(tmp_path)


def test_links_in_circles_end(tmp_path: Path) -> None:
    touch(tmp_path, "dog/1.jpg")
    (tmp_path / "dog" / "again").symlink_to(tmp_path / "dog")
    assert read(tmp_path).table.ids.tolist() == ["dog/1.jpg"]


def voc(root: Path, *, images: bool = True) -> Path:
    lists = root / "VOC2099" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for name, train, val in (("cat", " 1", "-1"), ("train", "-1", " 1"), ("dog", " 0", " 1")):
        (lists / f"{name}_train.txt").write_text(f"b {train}\na -1\n")
        (lists / f"{name}_val.txt").write_text(f"c {val}\n")
        (lists / f"{name}_trainval.txt").write_text("junk\n")
    (lists / "train.txt").write_text("b\na\n")
    if images:
        touch(root / "VOC2099" / "JPEGImages", "a.jpg", "b.jpg", "c.jpg")
    return lists


def test_voc_devkit(tmp_path: Path) -> None:
    lists = voc(tmp_path)
    assert detect(tmp_path) == detect(tmp_path / "VOC2099") == "voc"
    table = read(tmp_path).table
    assert table.classes == ("cat", "dog", "train")
    assert table.ids.tolist() == ["a.jpg", "b.jpg", "c.jpg"]
    assert table.labels.dense().tolist() == [[-1, -1, -1], [1, -1, -1], [-1, 1, 1]]
    assert table.split is not None
    assert table.split.tolist() == ["train", "train", "test"]
    assert table.is_complete
    assert "official val" in " ".join(table.notes)
    for name in ("cat", "dog", "train"):
        (lists / f"{name}_test.txt").write_text("d -1\n")
    touch(tmp_path / "VOC2099" / "JPEGImages", "d.jpg")
    split = read(tmp_path).table.split
    assert split is not None
    assert split.tolist() == ["train", "train", "val", "test"]


def test_voc_problems(tmp_path: Path) -> None:
    lists = voc(tmp_path, images=False)
    assert read(tmp_path).table.root is None
    (lists / "cat_train.txt").write_text("b 2\na -1\na 1\nx\n")
    (lists / "dog_val.txt").unlink()
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert str(caught.value).replace(f"{lists}/", "").replace(str(lists), "Main").split("\n") == [
        "cat_train.txt, row 1: state '2' is not 1, 0 or -1",
        "cat_train.txt, row 3: image 'a' occurs twice",
        "cat_train.txt, row 4: has 1 columns, expected image and state",
        "cat_train.txt: has no line for image 'b'",
        "Main: dog_val.txt is missing",
    ]
    voc(tmp_path / "other")
    (tmp_path / "other" / "VOC2099").rename(tmp_path / "VOC2100")
    with pytest.raises(InputError, match="exactly one VOC folder"):
        read(tmp_path)


def test_real_voc(shared: Path) -> None:
    table = read(shared / "data" / "VOCdevkit").table
    train, test = table.take(table.rows_of("train")), table.take(table.rows_of("test"))
    assert train.labels.shape == (5717, 20)
    assert test.labels.shape == (5823, 20)
    assert round(float(train.labels.per_item(1).mean()), 2) == 1.46
    assert round(float(test.labels.per_item(1).mean()), 2) == 1.43
    assert train.ids.tolist() == sorted(train.ids.tolist())
    assert table.root == shared / "data" / "VOCdevkit" / "VOC2012" / "JPEGImages"


def instances(images: list[tuple[int, str]], annotations: list[tuple[int, int]]) -> str:
    content = {
        "images": [{"id": number, "file_name": name} for number, name in images],
        "annotations": [
            {"image_id": i, "category_id": c, "iscrowd": 1, "segmentation": [[1, 2]]}
            for i, c in annotations
        ],
        "categories": [{"id": 7, "name": "dog"}, {"id": 2, "name": "cat"}],
    }
    return json.dumps(content)


def test_coco(tmp_path: Path) -> None:
    notes = tmp_path / "annotations"
    notes.mkdir()
    train = notes / "instances_train2014.json"
    train.write_text(
        instances([(9, "a.jpg"), (10, "b.jpg"), (11, "c.jpg")], [(9, 7), (9, 7), (10, 2), (10, 7)])
    )
    one = read(train).table
    assert one.classes == ("cat", "dog")
    assert one.ids.tolist() == ["b.jpg", "a.jpg"]  # by the text of the number: '10' before '9'
    assert one.labels.dense().tolist() == [[1, 1], [-1, 1]]
    assert one.root is None
    assert "1 images without annotation were left out" in one.notes
    assert len(read(train, keep_empty=True).table) == 3
    touch(tmp_path / "train2014", "a.jpg", "b.jpg")
    assert read(train).table.root == tmp_path / "train2014"
    (notes / "instances_val2014.json").write_text(instances([(1, "v.jpg")], [(1, 2)]))
    both = read(tmp_path).table
    assert detect(tmp_path) == detect(notes) == detect(train) == "coco"
    assert both.root is None
    assert both.split is not None
    assert both.split.tolist() == ["train", "train", "test"]
    touch(tmp_path / "val2014", "v.jpg")
    both = read(tmp_path).table
    assert both.root == tmp_path
    assert both.ids.tolist() == ["train2014/b.jpg", "train2014/a.jpg", "val2014/v.jpg"]


def test_groups_of_coco(tmp_path: Path) -> None:
    path = tmp_path / "instances_default.json"
    content = json.loads(instances([(1, "a.jpg"), (2, "b.jpg"), (3, "c.jpg")], [(1, 7), (3, 2)]))
    path.write_text(json.dumps(content))
    assert read(path).table.groups is None
    content["images"][0]["group"], content["images"][2]["group"] = "album", 4
    path.write_text(json.dumps(content))
    found = read(path).table
    assert found.groups is not None
    assert found.groups.tolist() == ["album", "4"]
    with pytest.raises(InputError, match=r"group\[1\] '' is empty; an item of no group needs"):
        read(path, keep_empty=True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"images": [\n1,,]}', "row 2, column 3: is not JSON (Expecting value)"),
        ("[" * 200_000, "is not readable as JSON"),
        ("[]", "is not a COCO instances file (no list 'images' in it)"),
        ('{"images": [], "annotations": []}', "no list 'categories'"),
        (instances([(1, "a.jpg")], [(2, 7)]), "annotation 0 has the unknown image 2"),
        (instances([(1, "a.jpg")], [(1, 8)]), "annotation 0 has the unknown category 8"),
        (instances([(1, "../a.jpg")], [(1, 7)]), "id '../a.jpg' leaves its folder"),
        (instances([(1, "a.jpg"), (1, "b.jpg")], [(1, 7)]), "image id 1 occurs twice"),
        (instances([(1, "a.jpg"), (2, "a.jpg")], [(1, 7), (2, 7)]), "id 'a.jpg' occurs twice"),
        (instances([], []).replace('"cat"', '"dog"'), "category name 'dog' occurs twice"),
        (instances([], []).replace('"cat"', '" "'), "category 2 has the name ' ', which is empty"),
        (instances([], []), "has no image with an annotation"),
        (instances([], []).replace('"images": []', '"images": [3, {}]'), "image 0 needs an 'id'"),
    ],
)
def test_coco_problems(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "instances_default.json"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(str(path))
