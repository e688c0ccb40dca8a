"""CSV in both forms: meaning, decoding, and every sentence about bad input."""

import json
from pathlib import Path

import numpy as np
import pytest

from plusone.data.formats import detect, read
from plusone.data.table import ID_COLUMNS
from plusone.errors import InputError


def put(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def sentences(path: Path, **options: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(path, **options)  # type: ignore[arg-type]
    return str(caught.value).replace(f"{path}", "t.csv").split("\n")


def test_long_form_in_three_states(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        "image,labels,negatives,split\n"
        "a.jpg,dog,,train\n"
        "b.jpg,cat | dog,bird,Validation\n"
        "c.jpg,,,TEST\n",
    )
    assert detect(path) == "csv-long"
    table = read(path).table
    assert table.classes == ("bird", "cat", "dog")
    assert table.labels.dense().tolist() == [[0, 0, 1], [-1, 1, 1], [0, 0, 0]]
    assert table.truth is None
    assert table.split is not None
    assert table.split.tolist() == ["train", "val", "test"]
    assert table.root is None
    assert "no image file of the table exists" in table.notes[0]
    for name in ID_COLUMNS:
        assert read(put(tmp_path, f"{name},labels\na,x\n")).table.ids.tolist() == ["a"]


def test_bom_crlf_unicode_spaces_and_quotes(tmp_path: Path) -> None:
    text = '\ufeffImage, Labels\r\n"a, b.jpg", "Straße|big dog, brown"\r\n\r\n猫 1.jpg,日本\r\n'
    table = read(put(tmp_path, text)).table
    assert table.ids.tolist() == ["a, b.jpg", "猫 1.jpg"]
    assert table.classes == ("Straße", "big dog, brown", "日本")
    assert table.labels.dense().tolist() == [[1, 1, 0], [0, 0, 1]]


def test_star_means_all_other_classes(tmp_path: Path) -> None:
    some = put(tmp_path, "id,labels,negatives\na,x,*\nb,y,\nc,x|z,y\n")
    assert read(some).table.labels.dense().tolist() == [[1, -1, -1], [0, 1, 0], [1, -1, 1]]
    every = read(put(tmp_path, "id,labels,negatives\na,x,*\nb,y|x,*\n")).table
    assert every.is_complete
    assert every.truth is not None


def test_truth_column(tmp_path: Path) -> None:
    table = read(put(tmp_path, "id,labels,truth\na,x,x|y\nb,z,z\n")).table
    assert table.truth is not None
    assert table.truth.dense().tolist() == [[1, 1, -1], [-1, -1, 1]]
    assert table.labels.dense().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_labels_can_be_forced(tmp_path: Path) -> None:
    path = put(tmp_path, "id,labels\na,x|y\nb,z\n")
    complete = read(path, labels="complete").table
    assert complete.is_complete
    assert complete.truth is not None
    wide = put(tmp_path, "id,x,y\na,1,1\nb,0,1\n", "w.csv")
    assert read(wide).table.is_complete
    seen = read(wide, labels="seen").table
    assert seen.truth is None
    assert seen.labels.dense().tolist() == [[1, 1], [0, 1]]
    single = put(tmp_path, "id,x,y\na,1,0\nb,0,1\n", "s.csv")
    assert read(single).table.truth is None
    assert read(single, labels="complete").table.is_complete


@pytest.mark.parametrize(
    ("rows", "dense", "complete", "note"),
    [
        ("a,1,0\nb,0,1", [[1, 0], [0, 1]], False, "no row with several"),
        ("a,1,1\nb,0,1", [[1, 1], [-1, 1]], True, "taken as complete"),
        ("a,1,-1\nb,0,1.0", [[1, -1], [0, 1]], False, "taken as unobserved"),
        ("a,1,\nb,1,1", [[1, 0], [1, 1]], False, "taken as unobserved"),
        ("a,1,-1\nb,-1.0,1", [[1, -1], [-1, 1]], True, "every cell is 1 or -1"),
        ("a, 1,0\nb,0,0", [[1, 0], [0, 0]], False, "no row with several"),
    ],
)
def test_wide_form_meaning(
    tmp_path: Path, rows: str, dense: list[list[int]], complete: bool, note: str
) -> None:
    path = put(tmp_path, f"id,x,y\n{rows}\n")
    assert detect(path) == "csv-wide"
    table = read(path).table
    assert table.labels.dense().tolist() == dense
    assert (table.truth is not None) == complete
    assert note in " ".join(table.notes)


def test_missing_images(tmp_path: Path) -> None:
    path = put(tmp_path, "image,labels\nimg/a.jpg,x\nimg/b.jpg,x\nc.jpg,y\n")
    assert read(path).table.root is None
    (tmp_path / "img").mkdir()
    (tmp_path / "img" / "a.jpg").write_bytes(b"")
    assert sentences(path) == [
        f"t.csv, row 3: image 'img/b.jpg' does not exist below {tmp_path}",
        f"t.csv, row 4: image 'c.jpg' does not exist below {tmp_path}",
    ]
    assert read(path, check_images=False).table.root == tmp_path
    for name in ("img/b.jpg", "c.jpg"):
        (tmp_path / name).write_bytes(b"")
    table = read(path).table
    assert table.root == tmp_path
    assert table.path(2) == tmp_path / "c.jpg"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = put(elsewhere, path.read_bytes())
    assert read(moved, images=tmp_path).table.root == tmp_path
    with pytest.raises(InputError, match=r"'c.jpg' does not exist below"):
        read(moved, images=elsewhere)


def test_all_problems_of_a_long_file_at_once(tmp_path: Path) -> None:
    put(tmp_path, "dog\r\ncat\r\n", "classes.txt")
    path = put(
        tmp_path,
        "image,labels,negatives,split\n"
        "a.jpg,dgo,,train\n"
        "b.jpg,dog||cat,,train\n"
        "c.jpg,dog,,later\n"
        "d.jpg,dog,train\n"
        "../e.jpg,dog,,train\n"
        "/f.jpg,dog,,train\n"
        "C:/g.jpg,dog,,train\n"
        "x\\h.jpg,dog,,train\n"
        ",dog,,train\n"
        "i.jpg,dog,,train\n"
        "i.jpg,cat,,train\n",
    )
    assert sentences(path) == [
        "t.csv, row 2: class 'dgo' is not in the class list",
        "t.csv, row 3: an empty class name in 'dog||cat'",
        "t.csv, row 4: split 'later' is not train, val or test",
        "t.csv, row 5: has 3 columns, the header has 4 (a cell with a comma needs quotes)",
        "t.csv, row 6: id '../e.jpg' leaves its folder",
        "t.csv, row 7: id '/f.jpg' leaves its folder",
        "t.csv, row 8: id 'C:/g.jpg' leaves its folder",
        "t.csv, row 9: id 'x\\\\h.jpg' has a backslash (write '/' between folders)",
        "t.csv, row 10: id '' is empty",
        "t.csv, row 12: id 'i.jpg' occurs twice (first in row 11)",
    ]


@pytest.mark.parametrize("other", ["cafe\u0301", "caf\u00e9\u200b", "\ufeffcaf\u00e9"])
def test_class_names_that_look_the_same(tmp_path: Path, other: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"image,labels\na,caf\u00e9\nb,{other}\n", encoding="utf-8")
    with pytest.raises(InputError, match="look the same"):
        read(path)
    path.write_text(f"image,labels\na,cafe\nb,{other}\n", encoding="utf-8")
    assert read(path).table.classes == tuple(sorted(("cafe", other)))


def test_ids_that_end_in_nul(tmp_path: Path) -> None:
    """numpy would cut it off, and the two were one item."""
    images = [{"id": n, "file_name": name} for n, name in enumerate(("a", "a\0"))]
    notes = [{"image_id": n, "category_id": 1} for n in range(2)]
    content = {"images": images, "annotations": notes, "categories": [{"id": 1, "name": "x"}]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="control character"):
        read(tmp_path / "a.json")


def test_contradictions_in_a_row(tmp_path: Path) -> None:
    path = put(tmp_path, "id,labels,negatives\na,x|x,y\nb,y|x,x\n")
    assert sentences(path) == [
        "t.csv, row 2: class 'x' occurs twice in labels",
        "t.csv, row 3: class 'x' is both in labels and in negatives",
    ]


def test_twenty_problems_then_a_count(tmp_path: Path) -> None:
    rows = "".join(f"i{n},7\n" for n in range(50))
    found = sentences(put(tmp_path, f"id,x\n{rows}"))
    assert found[0] == "t.csv, row 2: '7' for class 'x' is not 1, 0, -1 or empty"
    assert len(found) == 21
    assert found[-1] == "... and 30 more problems."


def test_problems_of_a_wide_file(tmp_path: Path) -> None:
    path = put(tmp_path, "id,cat,,cat,split\na,1,0,yes,train\nb,0,0,train\na,0,2,0,train\n")
    assert sentences(path) == [
        "t.csv, row 1: class name '' of column 3 is empty",
        "t.csv, row 1: class 'cat' occurs twice",
        "t.csv, row 2: 'yes' for class 'cat' is not 1, 0, -1 or empty",
        "t.csv, row 3: has 4 columns, the header has 5 (a cell with a comma needs quotes)",
        "t.csv, row 4: '2' for class '' is not 1, 0, -1 or empty",
        "t.csv, row 4: id 'a' occurs twice (first in row 2)",
    ]


def test_row_numbers_count_lines_inside_quotes(tmp_path: Path) -> None:
    path = put(tmp_path, 'id,labels\n"a\nb",x\nc,x|\n')
    found = sentences(path)
    assert "t.csv, row 4: an empty class name in 'x|'" in found
    assert "t.csv, row 2: id 'a\\nb' has a control character or an undecodable byte in it" in found


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "t.csv: is empty"),
        (b"id,labels\n", "t.csv: has a header but no rows"),
        (b"id,labels\na,\n", "t.csv: no row names a class"),
        (b"id,x\n", "t.csv: has a header but no rows"),
        (b"id,split\na,train\n", "t.csv, row 1: has no class column"),
        (b"name,labels\na,x\n", "t.csv, row 1: no id column in the header (name, labels); name"),
        (b"image/labels\na/x\n", "cells are separated by commas, semicolons or tabs"),
        (b"id,labels,negative\na,x,y\n", "t.csv, row 1: column 'negative' is not one of labels"),
        (
            b"id,labels\na,caf\xe9\nb,caf\xc3\xa9\n",  # UTF-8 but for a byte
            "t.csv, row 2: byte 0xe9 after 'a,caf' is not UTF-8; save",
        ),
        (b"id,labels\na,caf\x81\n", "t.csv, row 2: byte 0x81 after 'a,caf' is not UTF-8; save"),
        ("id,labels\n".encode("utf-16"), "t.csv: is encoded as UTF-16; save it as UTF-8"),
        (b'id,labels\na,"x\n', "t.csv, row 2: cannot be read as CSV: unexpected end of data"),
        (b"id,labels\n" + b"a" * 5000 + b",x\n", "has 1024 or more characters"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, sentence: str) -> None:
    found = sentences(put(tmp_path, content))
    assert any(sentence in line for line in found), found


@pytest.mark.parametrize(
    ("content", "given", "notes"),
    [
        ('Filename,Keywords\na.jpg,"dog, sea, "\nb.jpg,"café,dog,dog"\n', None, ("','",)),
        ('Filename,Title,Keywords\na.jpg,"A, b",dog;sea\nb.jpg,"",café; dog\n', None, ("Title",)),
        ("Filename;Keywords\na.jpg;dog,sea\nb.jpg;café,dog\n", None, ("','",)),
        ('"Filename"\t"Tags"\na.jpg\tdog|sea\nb.jpg\tcafé|dog\n', None, ("'|'",)),
        ("image,labels\na.jpg,dog/sea\nb.jpg,café/dog\n", "/", ()),
    ],
)
def test_keywords_of_photo_programs(
    tmp_path: Path, content: str, given: str | None, notes: tuple[str, ...]
) -> None:
    for encoding in ("utf-8", "latin-1"):
        path = put(tmp_path, content.encode(encoding))
        assert detect(path) == "csv-long"
        table = read(path, separator=given).table
        assert table.ids.tolist() == ["a.jpg", "b.jpg"]
        assert table.classes == ("café", "dog", "sea")
        assert table.labels.dense().tolist() == [[0, 1, 1], [1, 1, 0]]
        more = (*notes, "Windows-1252") if encoding == "latin-1" else notes
        assert all(any(word in note for note in table.notes) for word in more), table.notes


def test_a_class_called_tag_is_no_column_of_keywords(tmp_path: Path) -> None:
    path = put(tmp_path, "image,dog,tag\na,1,0\nb,0,1\n")
    assert detect(path) == "csv-wide"
    assert read(path).table.classes == ("dog", "tag")


def test_class_lists(tmp_path: Path) -> None:
    path = put(tmp_path, "id,labels\na,x\n")
    assert read(path, classes=["y", "x"]).table.classes == ("y", "x")
    assert sentences(path, classes=["y"]) == ["t.csv, row 2: class 'x' is not in the class list"]
    put(tmp_path, "x\n\nx\n", "classes.txt")
    assert [line.rpartition("/")[2] for line in sentences(path)] == [
        "classes.txt, row 2: class name '' is empty",
        "classes.txt, row 3: class 'x' occurs twice (first in row 1)",
    ]


def test_uc_merced(shared: Path) -> None:
    folder = shared / "data" / "ucmerced"
    data = read(folder)
    table = data.table
    assert data.name == "ucmerced"
    assert table.labels.shape == (2100, 17)
    assert len(table.rows_of("train")) == 1680
    assert len(table.rows_of("test")) == 420
    assert table.is_complete
    assert table.root == folder
    assert table.path(0).is_file()
    assert table.labels.per_item(1).mean() == pytest.approx(3.3347, abs=1e-3)
    assert np.all(table.labels.per_item(0) == 0)


def test_the_group_column_in_both_forms(tmp_path: Path) -> None:
    long = read(put(tmp_path, "id,labels,Group\na,x, album 1\nb,y,album 1\nc,x,2\n")).table
    wide = read(put(tmp_path, "id,group,x,y\na,album 1,1,0\nb,album 1,0,1\nc,2,1,0\n")).table
    for table in (long, wide):
        assert table.groups is not None
        assert table.groups.tolist() == ["album 1", "album 1", "2"]
        assert table.classes == ("x", "y")


def test_groups_that_cannot_be(tmp_path: Path) -> None:
    advice = "an item of no group needs a name of its own there, such as its id"
    empty = f"t.csv, row 3: group '' is empty; {advice}"
    assert sentences(put(tmp_path, "id,labels,group\na,x,1\nb,y, \n")) == [empty]
    assert sentences(put(tmp_path, "id,group,x\na,rec,1\nb,,1\n")) == [empty]
    odd = sentences(put(tmp_path, f"id,labels,group\na,x,r\x07\nb,y,{'r' * 2000}\n"))
    assert len(odd) == 2
    assert "row 2: group 'r\\x07' has a control character" in odd[0]
    assert "row 3: group 'rrr" in odd[1]
    assert "has 1024 or more characters" in odd[1]
    # In the wide form it may have been meant as a class.
    (class_like,) = sentences(put(tmp_path, "id,group,x\na,1,1\nb,0,1\n"))
    assert "t.csv, row 1: the column 'group' has the groups that items belong to" in class_like
