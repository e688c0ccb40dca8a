"""`prepare cub`: small trees of the real layout."""

from pathlib import Path

import pytest

from plusone.data.public import prepare
from plusone.errors import InputError

NAMES = ("has_bill_shape::curved_(up_or_down)", "has_bill_shape::dagger", "has_tail::fan")
# image number -> file, 1 for training, states of the attributes
IMAGES = {
    1: ("002.Laysan/Laysan_2.jpg", 0, "010"),
    2: ("001.Black/Black_10.jpg", 1, "111"),
    3: ("001.Black/Black_9.jpg", 1, "000"),
}


def tree(root: Path, *, names: str = "attributes.txt") -> Path:
    """The download: `CUB_200_2011/` with the lists, `attributes.txt` beside it."""
    home = root / "CUB_200_2011"
    (home / "attributes").mkdir(parents=True)
    (root / names).write_text("".join(f"{n} {name}\n" for n, name in enumerate(NAMES, 1)))
    for file, line in (("images.txt", "{0} {1[0]}\n"), ("train_test_split.txt", "{0} {1[1]}\n")):
        (home / file).write_text("".join(line.format(n, image) for n, image in IMAGES.items()))
    lines = [
        f"{number} {attribute} {state} 3 27.7080\n"
        for number, (_, _, states) in IMAGES.items()
        for attribute, state in enumerate(states, 1)
    ]
    lines[4] = "2 2 1 3 0 0 1.509\n"  # the public file has lines with more columns
    (home / "attributes" / "image_attribute_labels.txt").write_text("".join(lines))
    for name, _, _ in IMAGES.values():
        (home / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "images" / name).write_bytes(b"")
    return home


@pytest.mark.parametrize(
    "names",
    ["attributes.txt", "CUB_200_2011/attributes.txt", "CUB_200_2011/attributes/attributes.txt"],
)
def test_layout(tmp_path: Path, names: str) -> None:
    home = tree(tmp_path, names=names)
    for root in (tmp_path, home):
        made = prepare("cub", root)
        table = made.table
        assert table.classes == NAMES
        assert table.ids.tolist() == [IMAGES[2][0], IMAGES[3][0], IMAGES[1][0]]
        assert table.split is not None
        assert table.split.tolist() == ["train", "train", "test"]
        assert table.labels.dense().tolist() == [[1, 1, 1], [-1, -1, -1], [-1, 1, -1]]
        assert table.path(0).is_file()
        assert table.notes == ("1 lines of image_attribute_labels.txt have other than 5 columns",)
        assert [count.expected for count in made.counts] == [5994, 5794, 312, 31.4]


def test_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree(tmp_path))
    assert prepare("cub", ".").table.classes == NAMES


@pytest.mark.parametrize(
    "file", ["images.txt", "train_test_split.txt", "attributes/image_attribute_labels.txt"]
)
def test_what_is_missing(tmp_path: Path, file: str) -> None:
    home = tree(tmp_path)
    (home / file).unlink()
    with pytest.raises(InputError) as caught:
        prepare("cub", tmp_path)
    assert str(caught.value).startswith(f"{home / file}: is missing; CUB-200-2011 is obtained from")


def test_missing_images_are_refused_by_default(tmp_path: Path) -> None:
    home = tree(tmp_path)
    (home / "images" / IMAGES[3][0]).unlink()
    with pytest.raises(InputError, match=r"Black_9\.jpg: is missing, .*vision\.caltech\.edu"):
        prepare("cub", tmp_path)
    assert len(prepare("cub", tmp_path, missing="drop").table) == 2


LABELS = "attributes/image_attribute_labels.txt"


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        (
            "images.txt",
            "1 002.Laysan",
            "1 ../../002.Laysan",
            "{file}, row 1: id '../../002.Laysan/Laysan_2.jpg' leaves its folder",
        ),
        (
            "images.txt",
            "2 001",
            "2 /001",
            "{file}, row 2: id '/001.Black/Black_10.jpg' leaves its folder",
        ),
        (
            "images.txt",
            "3 001",
            "x 001",
            "{file}, row 3: 'x 001.Black/Black_9.jpg' is not a number and a value",
        ),
        ("images.txt", "3 001", "2 001", "{file}, row 3: number 2 occurs twice"),
        (
            "train_test_split.txt",
            "2 1",
            "2 yes",
            "{file}, row 2: 'yes' is not 1 (train) or 0 (test)",
        ),
        ("train_test_split.txt", "2 1", "7 1", "{file}, row 2: image 7 is not in images.txt"),
        ("train_test_split.txt", "2 1", "7 1", "{file}: has no line for image 2"),
        ("train_test_split.txt", "2 1", "2", "{file}, row 2: '2' is not a number and a value"),
        (
            LABELS,
            "1 2 1 3",
            "1 2 5 3",
            "{file}, row 2: '1 2 5 3 27.7080' has no 1 or 0 in its third column",
        ),
        (
            LABELS,
            "1 2 1 3",
            "1 9 1 3",
            "{file}, row 2: '1 9 1 3 27.7080' is not an image and an attribute of the lists",
        ),
        (LABELS, "1 2 1 3 27.7080", "1", "{file}, row 2: '1' is not an image and an attribute"),
        (
            LABELS,
            "1 2 1 3 27.7080",
            "1 2",
            "{file}, row 2: '1 2' has no 1 or 0 in its third column",
        ),
        (
            LABELS,
            "1 2 1 3",
            "1 1 1 3",
            "{file}, row 2: '1 1 1 3 27.7080' gives an image and attribute again",
        ),
        (LABELS, "1 2 1 3 27.7080\n", "\n", "{file}: has no line for image 1, attribute 2"),
        (
            "../attributes.txt",
            "2 has_bill_shape::dagger",
            "2 has_tail::fan",
            "{file}, row 3: class 'has_tail::fan' occurs twice",
        ),
        (
            "../attributes.txt",
            "2 has_bill_shape::dagger",
            "2 a\x01b",
            "{file}, row 2: class name 'a\\x01b' has a control character",
        ),
    ],
)
def test_bad_rows(tmp_path: Path, file: str, old: str, new: str, sentence: str) -> None:
    path = (tree(tmp_path) / file).resolve()
    content = path.read_text()
    assert content.count(old) == 1
    path.write_text(content.replace(old, new))
    with pytest.raises(InputError) as caught:
        prepare("cub", tmp_path)
    assert sentence.format(file=path) in str(caught.value)
