"""MULAN ARFF + XML, npz and parquet."""

from pathlib import Path

import numpy as np
import pytest

from plusone.data.formats import detect, read, write
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError

XML = '<?xml version="1.0"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">{}</labels>'
NESTED = XML.format('<label name="animal"><label name="big dog"/></label>')
HEADER = (
    "% a comment\n@relation 'x: y'\n\n@attribute \"a 'b'\" numeric\n"
    "@ATTRIBUTE colour {red,'dark green'}\n"
    "@attribute 'big dog' {0,1}\n@attribute animal {0,1}\n@data\n"
)


def mulan(folder: Path, rows: str, *, xml: str = NESTED, name: str = "toy.arff") -> Path:
    (folder / "toy.xml").write_text(xml)
    (folder / name).write_text(HEADER + rows)
    return folder / name


def test_dense_sparse_nominal_nested_and_quoted(tmp_path: Path) -> None:
    path = mulan(tmp_path, "0.5,red,1,0\r\n% more\n{0 1e1, 1 'dark green', 3 1}\n{}\n")
    assert detect(tmp_path) == detect(path) == detect(tmp_path / "toy.xml") == "mulan"
    data = read(tmp_path)
    assert data.features is not None
    assert data.features.tolist() == [[0.5, 0], [10, 1], [0, 0]]
    assert data.features.dtype == np.float32
    assert data.table.classes == ("animal", "big dog")
    assert data.table.labels.dense().tolist() == [[-1, 1], [1, -1], [-1, -1]]
    assert data.table.ids.tolist() == ["item-00001", "item-00002", "item-00003"]
    assert data.table.split is None


def test_train_and_test_files(tmp_path: Path) -> None:
    mulan(tmp_path, "1,red,1,0\n", name="toy-train.arff")
    mulan(tmp_path, "2,red,0,0\n3,red,0,1\n", name="toy-test.arff")
    mulan(tmp_path, "9,red,0,0\n")
    table = read(tmp_path).table
    assert table.ids.tolist() == ["train-00001", "test-00001", "test-00002"]
    assert table.split is not None
    assert table.split.tolist() == ["train", "test", "test"]
    assert read(tmp_path / "toy-test.arff").table.ids.tolist() == ["test-00001", "test-00002"]


def test_mulan_problems_at_once(tmp_path: Path) -> None:
    path = mulan(
        tmp_path,
        "1,red,1\nx,red,1,0\n1,blue,1,0\n1,red,2,0\n{9 1}\n{1 red\n?,red,0,0\n",
        xml=XML.format('<label name="animal"/><label name="cat"/>\n<label name="animal"/><label/>'),
    )
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).replace(f"{tmp_path}/", "").split("\n") == [
        "toy.xml, row 3: label 'animal' occurs twice",
        "toy.xml, row 3: label name '' is empty",
        "toy.arff, row 9: has 3 columns, the header has 4 attributes",
        "toy.arff, row 10: 'x' for attribute \"a 'b'\" is not a number",
        "toy.arff, row 11: 'blue' for attribute 'colour' is not one of red, dark green",
        "toy.arff, row 12: '2' for attribute 'big dog' is not one of 0, 1",
        "toy.arff, row 13: '9 1' does not name an attribute by its number",
        "toy.arff, row 14: a sparse row has no closing brace",
        "toy.arff, row 15: '?' for attribute \"a 'b'\" is not a number",
        "toy.arff: has no attribute for the label 'cat' of toy.xml",
        "toy.arff: has no attribute for the label '' of toy.xml",
    ]


@pytest.mark.parametrize(
    ("xml", "sentence"),
    [
        ('<!DOCTYPE x [<!ENTITY a "b">]><labels/>', "has a document type or entities"),
        ("<labels><label</labels>", "toy.xml, row 1, column 15: is not XML (not well-formed"),
        ("<labels/>", "toy.xml: names no label"),
        ('<?xml version="1.0" encoding="nope"?><labels/>', "toy.xml"),
        (
            XML.format('<label name="colour"/>'),
            "'colour' of toy.xml has the values red, dark green",
        ),
        (XML.format("<label name=\"a 'b'\"/>"), "row 9: 0.5 for label \"a 'b'\" is not 0 or 1"),
    ],
)
def test_bad_xml(tmp_path: Path, xml: str, sentence: str) -> None:
    path = mulan(tmp_path, "0.5,red,1,0\n", xml=xml)
    with pytest.raises(InputError) as caught:
        read(path)
    assert sentence in str(caught.value)


def test_mulan_files_that_do_not_fit(tmp_path: Path) -> None:
    path = mulan(tmp_path, "1,red,1,0\n", name="toy-train.arff")
    other = tmp_path / "toy-test.arff"
    other.write_text(path.read_text().replace("colour", "hue"))
    with pytest.raises(InputError, match=r"toy-test.arff: has other attributes than the training"):
        read(tmp_path)
    (tmp_path / "toy.xml").unlink()
    with pytest.raises(InputError, match=r"the file toy.xml with the label names is missing"):
        read(path)
    (tmp_path / "b.xml").write_text(NESTED)
    with pytest.raises(InputError, match=r"neither b-train.arff nor b.arff"):
        read(tmp_path)
    path.write_bytes(b"@relation x\n@attribute \xff numeric\n")
    (tmp_path / "toy.xml").write_text(NESTED)
    with pytest.raises(InputError, match="row 2: byte 0xff is not UTF-8"):
        read(path)


def test_real_mulan(shared: Path) -> None:
    folder = shared / "data" / "mulan"
    yeast = read(folder / "yeast")
    assert yeast.table.labels.shape == (2417, 14)
    assert len(yeast.table.rows_of("train")) == 1500
    for name in ("emotions", "yeast"):
        arff, npz = read(folder / name), read(folder / f"{name}.npz")
        assert arff.table.ids.tolist() == npz.table.ids.tolist()
        assert arff.table.classes == npz.table.classes
        assert arff.table.labels.digest() == npz.table.labels.digest()
        np.testing.assert_array_equal(arff.features, npz.features)
    corel = read(folder / "corel5k.npz")
    assert corel.table.labels.shape == (5000, 374)
    assert len(corel.table.rows_of("test")) == 500
    assert corel.features is not None
    assert corel.features.shape == (5000, 499)


def test_real_coco_arrays(shared: Path) -> None:
    table = read(shared / "data" / "coco2014" / "coco_train2014.npz").table
    assert table.labels.shape == (82081, 80)
    assert table.notes[0] == "arrays that were not read: observed_seed1200"
    assert table.is_complete


def test_generic_npz(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, y=[[1, 1], [0, 0]], names=["a", "b"], split=["train", "dev"], x=np.ones((2, 3)))
    data = read(path)
    assert data.table.classes == ("class-000", "class-001")
    assert data.table.is_complete
    assert data.table.split is not None
    assert data.table.split.tolist() == ["train", "val"]
    assert data.features is not None
    assert data.features.dtype == np.float32
    np.savez(path, labels=[[1, 0], [-1, 0]], classes=["x", "y"])
    table = read(path).table
    assert table.truth is None
    assert table.labels.dense().tolist() == [[1, 0], [-1, 0]]
    assert table.ids.tolist() == ["item-00001", "item-00002"]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": np.ones(3)}, "found x; it holds features"),
        ({"foo": np.ones(3)}, "has no labels in it: expected 'y' or 'labels' [N, L], found foo"),
        ({"y": np.array([[1, 5]])}, "5 in y[0, 1] is not 1, 0 or -1"),
        ({"y": np.eye(2), "ids": ["a"]}, "ids has shape (1,), but y has shape (2, 2)"),
        ({"y": np.eye(2), "ids": ["a", "a"]}, "id 'a' occurs twice"),
        ({"y": np.eye(2), "classes": ["a", "a"]}, "class 'a' occurs twice"),
        ({"y": np.eye(2), "classes": ["a", ""]}, "class name '' at place 1 is empty"),
        ({"y": np.eye(2), "split": ["train", "x"]}, "split[1] 'x' is not train, val or test"),
        ({"y": np.eye(2), "x": [[1.0], [np.nan]]}, "x has a NaN or infinite value in row 1"),
        ({"y": np.array(["a"])}, "y has shape (1,) and type <U1"),
        ({"y": np.array([[{}]], dtype=object)}, "pickled objects"),
        ({"plusone": "plusone-labels-9"}, "was written in the newer form plusone-labels-9"),
        ({"plusone": "plusone-labels-1"}, "is damaged ('ids')"),
    ],
)
def test_npz_problems(tmp_path: Path, arrays: dict[str, object], sentence: str) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        read(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_truncated_npz(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, y=np.eye(50))
    whole = path.read_bytes()
    for content in (whole[:1000], whole[:-30], b"", b"hello", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"g.npz: is not a readable npz file"):
            read(path)
    broken = bytearray(whole)
    broken[400] ^= 0xFF
    path.write_bytes(bytes(broken))
    with pytest.raises(InputError, match=r"g.npz: is not a readable npz file"):
        read(path)


def test_a_table_that_packs_too_well_is_written_so_that_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One long name among many makes all of them wide, and nearly all of it zeros."""
    ids = np.array([f"{number}.jpg" for number in range(2000)], dtype="<U900")
    labels = LabelMatrix.from_entries(range(2000), [0] * 2000, 1, (2000, 1))
    path = tmp_path / "labels.npz"
    for limit, packed in ((2**30, True), (2**20, False)):
        monkeypatch.setattr("plusone.io.readers.UNPACKED", limit)
        write(LabelTable(ids, ("a",), labels), path)
        assert read(path).table.ids.tolist() == ids.tolist()
        assert (path.stat().st_size < ids.nbytes / 100) == packed


def test_parquet_made_elsewhere(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    columns = {
        "image": ["a", "b", "c"],
        "labels": [["x", "y"], None, []],
        "negatives": [[], ["x"], ["*"]],
    }
    pq.write_table(pa.table(columns), path, row_group_size=2)
    table = read(path).table
    assert table.classes == ("x", "y")
    assert table.labels.dense().tolist() == [[1, 1], [-1, 0], [-1, -1]]
    with pytest.raises(InputError, match="row 1: class 'y' is not in the class list"):
        read(path, classes=["x"])
    pq.write_table(
        pa.table({"image": ["a", "a"], "labels": [["x", "x"], [None]], "split": ["q", "test"]}),
        path,
    )
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).replace(str(path), "t").split("\n") == [
        "t, row 2: an empty class name in labels",
        "t, row 1: split 'q' is not train, val or test",
        "t, row 2: id 'a' occurs twice (first in row 1)",
        "t, row 1: class 'x' occurs twice in labels",
    ]
    pq.write_table(pa.table({"image": ["a"], "labels": [1]}), path)
    with pytest.raises(InputError, match="column 'labels' does not hold lists of names"):
        read(path)
    pq.write_table(pa.table({"image": ["a"]}), path)
    with pytest.raises(InputError, match="needs the columns id and labels"):
        read(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="is not a readable parquet file"):
        read(path)


def test_groups_in_arrays_and_parquet(tmp_path: Path) -> None:
    y, path = np.eye(3, dtype=int), tmp_path / "a.npz"
    np.savez(path, y=y, group=np.array([7, 7, 8]))
    groups = read(path).table.groups
    assert groups is not None
    assert groups.tolist() == ["7", "7", "8"]
    np.savez(path, y=y, group=np.array([7, 7]))
    with pytest.raises(InputError, match=r"group has shape \(2,\), but y has shape \(3, 3\)"):
        read(path)
    np.savez(path, y=y, group=np.array(["a", "", "b"]))
    with pytest.raises(InputError, match=r"a.npz: group\[1\] '' is empty; an item of no"):
        read(path)
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    columns = {"id": ["a", "b"], "labels": [["x"], ["y"]], "group": [3, None]}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a.parquet, row 2: group '' is empty"):
        read(tmp_path / "a.parquet")
    columns["group"] = [3, 3]
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    groups = read(tmp_path / "a.parquet").table.groups
    assert groups is not None
    assert groups.tolist() == ["3", "3"]
