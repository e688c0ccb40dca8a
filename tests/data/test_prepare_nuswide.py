"""`prepare nuswide`: small trees of the real layout."""

from pathlib import Path

import numpy as np
import pytest

from plusone.data.matrix import LabelMatrix
from plusone.data.public import nuswide, prepare
from plusone.data.table import LabelTable
from plusone.errors import InputError

CONCEPTS = ("airport", "animal", "lake")
TRAIN = {"actor\\0001_21.jpg": "100", "zebra\\0002_7.jpg": "000", "actor\\0003_5.jpg": "011"}
TEST = {"beach\\0004_9.jpg": "001", "actor\\0005_1.jpg": "110"}


def tree(root: Path, *, images: bool = True) -> Path:
    """Five images in two parts; one has no positive. The lists have the spaces they really have."""
    for folder in ("ImageList", "ConceptsList", "Groundtruth/TrainTestLabels"):
        (root / folder).mkdir(parents=True)
    (root / "ConceptsList" / "Concepts81.txt").write_text("".join(f"{c} \n" for c in CONCEPTS))
    labels = root / "Groundtruth" / "TrainTestLabels"
    for part, items in (("Train", TRAIN), ("Test", TEST)):
        lines = "".join(f"{name} \r\n" for name in items)
        (root / "ImageList" / f"{part}Imagelist.txt").write_bytes(lines.encode())
        for column, name in enumerate(CONCEPTS):
            cells = "".join(f"{states[column]}\n" for states in items.values())
            (labels / f"Labels_{name}_{part}.txt").write_text(cells)
    for name in (*TRAIN, *TEST) if images else ():
        path = root / "Flickr" / name.replace("\\", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return labels


def test_official_parts(tmp_path: Path) -> None:
    tree(tmp_path)
    made = prepare("nuswide", tmp_path, split="official")
    table = made.table
    assert table.classes == CONCEPTS
    assert table.ids.tolist() == [name.replace("\\", "/") for name in (*TRAIN, *TEST)]
    assert table.split is not None
    assert table.split.tolist() == ["train"] * 3 + ["test"] * 2
    states = [[1 if state == "1" else -1 for state in row] for row in (TRAIN | TEST).values()]
    assert table.labels.dense().tolist() == states
    assert table.labels.per_item(1).tolist() == [1, 0, 2, 1, 2]  # no positive at all: it stays
    assert table.path(0) == tmp_path / "Flickr" / "actor" / "0001_21.jpg"
    assert table.path(0).is_file()
    assert [count.expected for count in made.counts] == [126_034, 84_226, 81, None]
    assert made.counts[-1].fits


def test_files_without_their_folders(tmp_path: Path) -> None:
    """People also unpack everything into one folder."""
    tree(tmp_path)
    for name in ("ImageList", "ConceptsList", "Groundtruth"):
        for inside in list((tmp_path / name).iterdir()):
            inside.rename(tmp_path / inside.name)
        (tmp_path / name).rmdir()
    (tmp_path / "Flickr").rename(tmp_path / "images")
    table = prepare("nuswide", tmp_path).table
    assert len(table) == 5
    assert table.root == tmp_path / "images"


def test_the_papers_split_is_drawn_from_both_parts(tmp_path: Path) -> None:
    tree(tmp_path)
    made = prepare("nuswide", tmp_path)
    table = made.table
    assert table.split is not None
    assert table.split.tolist() == ["train"] * 4 + ["test"]
    for rows in (table.rows_of("train"), table.rows_of("test")):
        assert table.ids[rows].tolist() == sorted(table.ids[rows].tolist())
    official = prepare("nuswide", tmp_path, split="official").table
    for name, row in zip(table.ids, table.labels.dense().tolist(), strict=True):
        place = official.ids.tolist().index(name)
        assert row == official.labels.dense([place])[0].tolist()
    again = prepare("nuswide", tmp_path).table
    assert again.ids.tolist() == table.ids.tolist()
    tests = {prepare("nuswide", tmp_path, seed=seed).table.ids[-1] for seed in range(8)}
    assert len(tests) > 1
    assert [count.expected for count in made.counts] == [150_000, 60_260, 81, 1.89]


def test_the_papers_share_gives_the_papers_counts() -> None:
    items = 126_034 + 84_226
    truth = LabelMatrix.from_lists([[0]] * items, 1, default=-1)
    table = nuswide.draw(LabelTable.complete(np.arange(items).astype(str), ["x"], truth), 1200)
    assert (len(table.rows_of("train")), len(table.rows_of("test"))) == (150_000, 60_260)


def test_missing_images_are_dropped_before_the_draw(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "Flickr" / "zebra" / "0002_7.jpg").unlink()
    (tmp_path / "Flickr" / "actor" / "0005_1.jpg").unlink()
    table = prepare("nuswide", tmp_path).table
    assert len(table) == 3
    assert len(table.rows_of("train")) == 2
    assert "zebra/0002_7.jpg" not in table.ids.tolist()
    assert "2 of 5 items were dropped" in " ".join(table.notes)
    assert len(prepare("nuswide", tmp_path, missing="keep").table) == 5
    with pytest.raises(InputError, match=r"zebra/0002_7\.jpg: is missing, one of 2 missing images"):
        prepare("nuswide", tmp_path, missing="refuse")


def test_what_is_missing(tmp_path: Path) -> None:
    labels = tree(tmp_path, images=False)
    with pytest.raises(InputError, match=rf"{tmp_path / 'Flickr'}: is missing, and so is every"):
        prepare("nuswide", tmp_path)
    (labels / "Labels_animal_Test.txt").unlink()
    with pytest.raises(InputError, match=r"Labels_animal_Test.txt: is missing; NUS-WIDE is obtai"):
        prepare("nuswide", tmp_path)
    (tmp_path / "ImageList" / "TestImagelist.txt").unlink()
    with pytest.raises(InputError) as caught:
        prepare("nuswide", tmp_path)
    first, second = tmp_path / "ImageList/TestImagelist.txt", tmp_path / "TestImagelist.txt"
    assert str(caught.value).startswith(f"{first} or {second}: is missing; NUS-WIDE is obtained")


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        (
            "ImageList/TrainImagelist.txt",
            "a.jpg\n..\\..\\b.jpg\nc.jpg\n",
            "{file}, row 2: id '../../b.jpg' leaves its folder",
        ),
        (
            "ImageList/TrainImagelist.txt",
            "a.jpg\n\nC:\\b.jpg\nc.jpg\n",
            "{file}, row 3: id 'C:/b.jpg' leaves its folder",
        ),
        (
            "ImageList/TrainImagelist.txt",
            "a.jpg\na.jpg\nc.jpg\n",
            "{file}, row 2: id 'a.jpg' occurs twice (first in row 1)",
        ),
        ("ImageList/TrainImagelist.txt", " \n", "{file}: names no image"),
        (
            "ImageList/TestImagelist.txt",
            "actor\\0001_21.jpg\nx.jpg\n",
            "id 'actor/0001_21.jpg' occurs twice",
        ),
        (
            "Groundtruth/TrainTestLabels/Labels_lake_Train.txt",
            "1\n2\n0\n",
            "{file}, row 2: label '2' is not 0 or 1",
        ),
        (
            "Groundtruth/TrainTestLabels/Labels_lake_Train.txt",
            "1\n-1130179\n0\n",
            "{file}, row 2: label '-1130179' is not 0 or 1",
        ),
        (
            "Groundtruth/TrainTestLabels/Labels_lake_Train.txt",
            "1\n0\n",
            "{file}: has 2 labels for 3 images",
        ),
        ("ConceptsList/Concepts81.txt", "lake\nlake\n", "{file}, row 2: class 'lake' occurs twice"),
        (
            "ConceptsList/Concepts81.txt",
            "lake\n../../lake\n",
            "{file}, row 2: class name '../../lake' names another folder",
        ),
        ("ConceptsList/Concepts81.txt", "", "{file}: names no class"),
        # Longer than file names may be: the system then says something else than "not there".
        ("ConceptsList/Concepts81.txt", "x" * 300, f"{'x' * 300}_Train.txt: is missing"),
    ],
)
def test_bad_rows(tmp_path: Path, file: str, content: str, sentence: str) -> None:
    tree(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(InputError) as caught:
        prepare("nuswide", tmp_path)
    assert sentence.format(file=tmp_path / file) in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    tree(tmp_path)
    file = tmp_path / "ImageList" / "TrainImagelist.txt"
    file.write_bytes(b"a.jpg\n\xff.jpg\nc.jpg\n")
    with pytest.raises(InputError, match=r"TrainImagelist.txt, row 2: b'\\xff.jpg' is not UTF-8"):
        prepare("nuswide", tmp_path)


def test_a_huge_name_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    tree(tmp_path)
    file = tmp_path / "ImageList" / "TrainImagelist.txt"
    file.write_text("a.jpg\n" + "b" * 1_000_000 + "\nc.jpg\n")
    with pytest.raises(InputError, match=r"row 2: id 'bbb.*has 1024 or more characters"):
        prepare("nuswide", tmp_path)


def test_the_damaged_cell_of_the_public_files(tmp_path: Path) -> None:
    """Row 78,372 of one public file is a stray number; exactly that one is read as 0."""
    labels = tree(tmp_path, images=False)
    items = 78_372
    names = "".join(f"x\\{number}.jpg\n" for number in range(items))
    (tmp_path / "ImageList" / "TrainImagelist.txt").write_text(names)
    for name in CONCEPTS:
        last = "-1130179" if name == "lake" else "1"
        (labels / f"Labels_{name}_Train.txt").write_text("1\n" * (items - 1) + f"{last}\n")
    table = prepare("nuswide", tmp_path, split="official", missing="keep").table
    assert table.labels.dense([items - 1]).tolist() == [[1, 1, -1]]
    assert "Labels_lake_Train.txt, row 78,372: -1130179 was read as 0" in table.notes
