"""Feature files: reading, aligning, refusing."""

from pathlib import Path

import numpy as np
import pytest

from plusone.data.features import FeatureFile, align, read_features, write_features
from plusone.data.formats import read
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.data.table import LabelTable
from plusone.errors import InputError


def table(*ids: str) -> LabelTable:
    return LabelTable(np.array(ids), ("x",), LabelMatrix.from_dense(np.ones((len(ids), 1))))


def features(*ids: str) -> FeatureFile:
    return FeatureFile(np.array(ids), np.arange(len(ids), dtype=np.float16)[:, None], {})


def test_written_is_read(tmp_path: Path) -> None:
    x = np.array([[1, 2], [3, 4]], dtype=np.float16)
    write_features(tmp_path / "b.npz", ["b1", "b2"], x, {"backbone": "lite0", "part": "b"})
    write_features(tmp_path / "a.npz", ["a1", "é"], x + 4, {"backbone": "lite0", "part": "a"})
    both = read_features([tmp_path])
    assert both.ids.tolist() == ["a1", "é", "b1", "b2"]
    assert both.x.tolist() == [[5, 6], [7, 8], [1, 2], [3, 4]]
    assert both.x.dtype == np.float16
    assert both.meta == {"backbone": "lite0"}
    one = read_features([tmp_path / "b.npz"])
    assert one.meta == {"backbone": "lite0", "part": "b"}


def test_exact_then_file_name_then_stem() -> None:
    found = align(features("c", "b.jpg", "d/a.jpg"), table("d/a.jpg", "z/b.jpg", "q/c.png"))
    assert found.ravel().tolist() == [2, 1, 0]
    same = features("a", "b")
    assert align(same, table("a", "b")) is same.x


@pytest.mark.parametrize(
    ("have", "want", "sentence"),
    [
        (["a"], ["a", "b", "c"], "2 items have no features: b, c"),
        (["a", "a"], ["a"], "1 items fit several rows of the features: a"),
        (["d/a.jpg", "e/a.jpg"], ["a.jpg"], "1 items fit several rows"),
        (["a.jpg"], ["d/a.jpg", "e/a.jpg"], "fits another item too: e/a.jpg"),
        (["x"], list("abcdefg"), "7 items have no features: a, b, c, d, e, ..."),
    ],
)
def test_doubt_is_refused(have: list[str], want: list[str], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        align(features(*have), table(*want))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": [[1.0], [np.nan]], "ids": ["a", "b"]}, "row 1: the features of 'b' have a NaN"),
        ({"x": [[np.inf]], "names": ["a"]}, "row 0: the features of 'a' have a NaN or infinite"),
        ({"x": [[1.0]]}, "needs the arrays x and ids (or names), found x"),
        ({"x": [[1.0]], "ids": ["a", "b"]}, "x has shape (1, 1)"),
        ({"x": [1.0], "ids": ["a"]}, "expected numbers [N, D]"),
        ({"x": [["q"]], "ids": ["a"]}, "expected numbers [N, D]"),
        ({"x": [[1.0]], "ids": ["a"], "meta": "{"}, "meta is not JSON"),
    ],
)
def test_bad_files(tmp_path: Path, arrays: dict[str, object], sentence: str) -> None:
    path = tmp_path / "f.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        read_features([path])
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_follows_a_dot_is_part_of_a_name_unless_it_is_a_suffix(tmp_path: Path) -> None:
    write_features(tmp_path / "x.npz", ["rec0.2"], np.ones((1, 2), np.float32), {})
    (tmp_path / "labels.csv").write_text("image,labels\nrec0.1,x\n")
    with pytest.raises(InputError, match="1 items have no features"):
        load_source(str(tmp_path / "labels.csv"), features=[tmp_path / "x.npz"])
    (tmp_path / "labels.csv").write_text("image,labels\na/rec0.2.JPG,x\n")
    data = load_source(str(tmp_path / "labels.csv"), features=[tmp_path / "x.npz"])
    assert "1 items were matched to features by the name of their file" in data.table.notes


def test_files_that_are_missing_or_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no feature file was given"):
        read_features([])
    with pytest.raises(InputError, match="has no npz file in it"):
        read_features([tmp_path])
    with pytest.raises(InputError, match="no such file"):
        read_features([tmp_path / "a.npz"])
    write_features(tmp_path / "a.npz", ["a"], np.ones((1, 2), dtype=np.float32), {})
    write_features(tmp_path / "b.npz", ["b"], np.ones((1, 3), dtype=np.float32), {})
    with pytest.raises(InputError, match=r"b.npz: has 3 features per item, .*a.npz has 2"):
        read_features([tmp_path])


def test_integers_and_doubles_become_float32(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((1, 2)), ids=["a"])
    np.savez(tmp_path / "b.npz", x=np.ones((1, 2), dtype=np.float16), ids=["b"])
    assert read_features([tmp_path]).x.dtype == np.float32


def test_real_voc_features_fit_the_devkit(shared: Path) -> None:
    data = read(shared / "data" / "VOCdevkit", check_images=False).table
    found = read_features([shared / "data" / "voc2012_features"])
    x = align(found, data)
    assert x.shape == (11540, 1280)
    assert x.dtype == np.float16
    row = int(np.flatnonzero(found.ids == data.ids[7])[0])
    np.testing.assert_array_equal(x[7], found.x[row])


def test_features_in_several_npy_files(tmp_path: Path) -> None:
    """Ids for all of them in one file, or the order of the items."""
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.save(tmp_path / "x-0.npy", x[:3])
    np.save(tmp_path / "x-1.npy", x[3:])
    pattern = tmp_path / "x-{0..1}.npy"
    with pytest.raises(InputError, match=r"x-0.npy: has no names for its rows; write the id"):
        read_features([pattern])
    names = np.array(list("abcde"))
    for source in (tmp_path, pattern, tmp_path / "x-*.npy"):
        found = read_features([source], names)
        assert found.ids is names
        assert found.x[:].tolist() == x.tolist()
    with pytest.raises(InputError, match="and 1 more: have 5 rows of features, there are 4 items"):
        read_features([pattern], names[:4])
    (tmp_path / "ids.txt").write_text("e\nd\nc\nb\na\n")
    assert read_features([pattern], names).ids.tolist() == list("edcba")
    (tmp_path / "ids.txt").write_text("e\nd\n")
    with pytest.raises(InputError, match=r"have 5 rows of features, .*ids.txt has 2 ids"):
        read_features([pattern])
    (tmp_path / "x-1.npy").rename(tmp_path / "x-1.NPY")
    (tmp_path / "ids.txt").unlink()
    assert read_features([tmp_path], names).x[:].tolist() == x.tolist()


def test_features_in_parquet_files(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    def save(name: str, **columns: object) -> Path:
        pq.write_table(pa.table(columns), tmp_path / name)
        return tmp_path / name

    save("a-0.parquet", id=["u", "v"], embedding=pa.array([[1, 2], [3, 4]], pa.list_(pa.float32())))
    save("a-1.parquet", id=["w"], embedding=pa.array([[5, 6]], pa.list_(pa.float32(), 2)))
    found = read_features([tmp_path / "a-*.parquet"])
    assert found.ids.tolist() == ["u", "v", "w"]
    assert found.x[:].tolist() == [[1, 2], [3, 4], [5, 6]]
    # Neither labels nor further ids are features.
    labels = {name: [0, 1] for name in ("label", "class", "Category", "image_id", "group")}
    wide = save("WIDE.PARQUET", id=[7, 8], f0=[1.0, 2.0], f1=[3, 4], split=["a", "b"], **labels)
    found = read_features([wide])
    assert found.ids.tolist() == ["7", "8"]
    assert found.x[:].tolist() == [[1, 3], [2, 4]]
    with pytest.raises(InputError, match=r"c.parquet: column 'camera' has the type string, but a"):
        read_features([save("c.parquet", id=["u"], f0=[1.0], camera=["x"])])
    with pytest.raises(InputError, match=r"b.parquet, row 1: the vector of 'v' has 1 values, that"):
        read_features([save("b.parquet", id=["u", "v"], x=[[1.0, 2.0], [3.0]])])
    with pytest.raises(InputError, match="row 0: the features of 'u' have a NaN"):
        read_features([save("c.parquet", id=["u"], x=[[1.0, None]])])
    with pytest.raises(InputError, match=r"has no column of ids; name it id \(found: x\)"):
        read_features([save("d.parquet", x=[[1.0]])])
