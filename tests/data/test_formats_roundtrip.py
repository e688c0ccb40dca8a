"""What is written is what is read, for every form that can be written."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from plusone.data.dataset import Dataset
from plusone.data.formats import FORMATS, read, write
from plusone.data.formats.csv_text import as_text
from plusone.data.formats.csv_wide import CELLS
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe_table
from plusone.data.table import LabelTable
from plusone.errors import InputError

pytestmark = pytest.mark.slow

SUFFIX = {"csv-long": "csv", "csv-wide": "csv", "npz": "npz", "parquet": "parquet"}
WRITABLE = [name for name, form in FORMATS.items() if form.write is not None]

text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="|\\/"),
    min_size=1,
    max_size=8,
).map(str.strip)
names = text.filter(
    lambda s: s and s not in ("*", "..") and s.lower() not in ("split", "labels", "group", "text")
)
ids = names.filter(lambda s: s[1:2] != ":")


@st.composite
def tables(draw: st.DrawFn) -> LabelTable:
    kind = draw(st.sampled_from(["seen", "three", "complete", "simulated"]))
    classes = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    items = draw(st.lists(ids, min_size=1, max_size=6, unique=True))
    shape = (len(items), len(classes))

    def states(low: int) -> np.ndarray:
        cells = draw(st.lists(st.integers(low, 1), min_size=shape[0] * shape[1], max_size=999))
        return np.array(cells[: shape[0] * shape[1]], dtype=np.int8).reshape(shape)

    truth = None
    if kind in ("complete", "simulated"):
        truth = LabelMatrix.from_dense(states(0), default=-1)
    if kind == "complete":
        labels = truth
    else:
        seen = states(-1 if kind == "three" else 0)
        labels = LabelMatrix.from_dense(seen if truth is None else seen * (truth.dense() == 1))
    groups = draw(st.none() | st.lists(names.map("g{}".format), min_size=6, max_size=6))
    split = draw(
        st.none() | st.lists(st.sampled_from(["train", "val", "test"]), min_size=6, max_size=6)
    )
    sentence = st.text(
        st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0")
    )
    texts = draw(st.none() | st.lists(sentence.map(as_text), min_size=6, max_size=6))
    return LabelTable(
        np.array(items),
        tuple(classes),
        labels,
        truth,
        None if split is None else np.array(split[: shape[0]]),
        groups=None if groups is None else np.array(groups[: shape[0]]),
        texts=None if texts is None else tuple(texts[: shape[0]]),
    )


def assert_same(one: LabelTable, other: LabelTable) -> None:
    assert one.ids.tolist() == other.ids.tolist()
    assert one.classes == other.classes
    np.testing.assert_array_equal(one.labels.dense(), other.labels.dense())
    assert (one.truth is None) == (other.truth is None)
    if one.truth is not None and other.truth is not None:
        assert one.truth.digest() == other.truth.digest()
    assert (one.split is None) == (other.split is None)
    if one.split is not None and other.split is not None:
        assert one.split.tolist() == other.split.tolist()
    assert one.texts == other.texts
    assert (one.groups is None) == (other.groups is None)
    if one.groups is not None and other.groups is not None:
        assert one.groups.tolist() == other.groups.tolist()
    assert dict(one.observation) == dict(other.observation)


@pytest.mark.parametrize("form", ["csv-long", "npz", "parquet"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_every_table_survives(tmp_path: Path, form: str, table: LabelTable) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"table.{SUFFIX[form]}"
    if form == "csv-long" and not any(
        len(part.indices) for part in (table.labels, table.truth) if part is not None
    ):
        table = replace(table, labels=LabelMatrix.from_dense(np.ones(table.labels.shape)))
        table = replace(table, truth=None)
    write(table, path)
    back = read(path, format=form).table
    # A table whose every label is seen is its own truth, whether or not it says so.
    if (table.labels.dense() != 0).all() and table.truth is None and back.truth is not None:
        back = replace(back, truth=None)
    assert_same(table, back)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_wide_csv_keeps_what_it_can_hold(tmp_path: Path, table: LabelTable) -> None:
    path = tmp_path / "table.csv"
    if table.truth is not None and not table.is_complete:
        with pytest.raises(InputError, match="cannot hold both"):
            write(table, path, format="csv-wide")
        return
    assume(table.texts is None or table.texts[0] not in CELLS)  # that is a class named text
    write(table, path, format="csv-wide")
    back = read(path, format="csv-wide").table
    np.testing.assert_array_equal(table.labels.dense(), back.labels.dense())
    assert back.ids.tolist() == table.ids.tolist()
    assert back.classes == table.classes
    assert (back.groups is None) == (table.groups is None)
    assert table.groups is None or (back.groups == table.groups).all()


@pytest.mark.parametrize("form", WRITABLE)
def test_a_complete_table_survives(tmp_path: Path, form: str) -> None:
    for states in ([[1, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 1]]):
        truth = LabelMatrix.from_dense(states, default=-1)
        table = LabelTable.complete(["a", "b"], ["z", "y", "x, 'é\""], truth)
        path = tmp_path / f"t.{SUFFIX[form]}"
        write(table, path, format=form)
        back = read(path).table
        assert back.is_complete
        assert_same(table, back)


@pytest.mark.parametrize("form", ["csv-long", "npz", "parquet"])
@pytest.mark.parametrize("scheme", ["single", "all"])
def test_an_observed_table_keeps_its_observation(tmp_path: Path, form: str, scheme: str) -> None:
    truth = LabelMatrix.from_dense(np.random.default_rng(0).integers(0, 2, (20, 6)), default=-1)
    table = LabelTable.complete([f"i{n}" for n in range(20)], list("abcdef"), truth)
    seen = observe_table(table, scheme)
    path = tmp_path / f"seen.{SUFFIX[form]}"
    write(seen, path)
    back = read(path).table
    assert_same(seen, back)
    assert back.labels.digest() == seen.labels.digest()
    assert back.observation["seed"] == 1200


def test_an_observation_of_other_labels_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "seen.csv"
    labels = LabelMatrix.from_dense([[1, 0], [0, 1]])
    table = LabelTable(np.array(["a", "b"]), ("x", "y"), labels, observation={"scheme": "single"})
    write(table, path)
    sidecar = tmp_path / "seen.csv.observation.json"
    assert json.loads(sidecar.read_text())["digest"] == labels.digest()
    path.write_text("image,labels\na,y\nb,x\n")
    back = read(path).table
    assert back.observation == {}
    assert "seen.csv.observation.json was ignored: it belongs to other labels" in back.notes
    sidecar.write_text("{")
    assert "was ignored: it cannot be read" in " ".join(read(path).table.notes)
    write(replace(table, observation={}), path)
    assert not sidecar.exists()


def test_class_order_and_unused_classes_survive_in_long_form(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    labels = LabelMatrix.from_dense([[1, 0, 0]])
    write(LabelTable(np.array(["a"]), ("z", "never", "b"), labels), path)
    assert read(path).table.classes == ("z", "never", "b")
    write(LabelTable(np.array(["a"]), ("z",), LabelMatrix.from_dense([[1]])), path)
    assert read(path).table.classes == ("z",)
    assert not (tmp_path / "t.csv.classes.txt").exists()


@pytest.mark.parametrize(
    ("form", "name", "sentence"),
    [
        ("csv-long", "a|b", r"class 'a\|b' contains '\|'"),
        ("csv-long", " a", "begins or ends with a space"),
        ("csv-long", "*", "cannot be written in long form"),
        ("csv-wide", "Split", "has the name of a column"),
        ("csv-wide", "a\nb", "control character"),
        ("parquet", "*", "cannot be written in long form"),
    ],
)
def test_names_that_would_not_come_back_are_refused(
    tmp_path: Path, form: str, name: str, sentence: str
) -> None:
    path = tmp_path / f"t.{SUFFIX[form]}"
    table = LabelTable(np.array(["i"]), (name,), LabelMatrix.from_dense([[1]]))
    with pytest.raises(InputError, match=sentence):
        write(table, path, format=form)
    assert list(tmp_path.iterdir()) == []


def test_npz_keeps_features_notes_and_root(tmp_path: Path) -> None:
    (tmp_path / "img").mkdir()
    (tmp_path / "img" / "a.jpg").write_bytes(b"")
    table = LabelTable(
        np.array(["a.jpg"]),
        ("x",),
        LabelMatrix.from_dense([[1]]),
        root=tmp_path / "img",
        notes=("n",),
    )
    data = Dataset(table, np.ones((1, 3), dtype=np.float16))
    (tmp_path / "sub").mkdir()
    write(data, tmp_path / "sub" / "t.npz")
    back = read(tmp_path / "sub" / "t.npz")
    assert back.table.root == (tmp_path / "img").resolve()
    assert back.table.notes == ("n",)
    assert back.features is not None
    assert back.features.dtype == np.float16
    with pytest.raises(InputError, match="cannot hold features"):
        write(data, tmp_path / "t.csv")


def test_wrong_suffixes_and_forms(tmp_path: Path) -> None:
    table = LabelTable(np.array(["a"]), ("x",), LabelMatrix.from_dense([[1]]))
    with pytest.raises(InputError, match=r"the suffix '.txt' is not"):
        write(table, tmp_path / "t.txt")
    with pytest.raises(InputError, match="'voc' cannot be written; take one of csv-long"):
        write(table, tmp_path / "t.txt", format="voc")
    with pytest.raises(InputError, match="'nope' is not one of auto, csv-long"):
        read(tmp_path, format="nope")
    with pytest.raises(InputError, match="'all' is not one of auto, seen, complete"):
        read(tmp_path, labels="all")
    with pytest.raises(InputError, match="no such file or folder"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="no such file or folder"):
        read(tmp_path / "nothing.csv", format="csv-long")
    with pytest.raises(InputError, match="has no files in it; name a folder"):
        read(tmp_path)


@pytest.mark.parametrize("form", ["csv-long", "csv-wide", "npz", "parquet"])
def test_images_in_another_folder_are_found_again(tmp_path: Path, form: str) -> None:
    photos = tmp_path / "some photos" / "new"
    photos.mkdir(parents=True)
    (photos / "a.png").touch()
    table = LabelTable(
        np.array(["a.png"]), ("x", "y"), LabelMatrix.from_dense([[1, 0]]), root=photos
    )
    path = tmp_path / "labels" / f"seen.{SUFFIX[form]}"
    path.parent.mkdir()
    write(table, path, format=form)
    assert read(path).table.root == photos
    both = tmp_path / "moved"
    both.mkdir()
    shutil.move(tmp_path / "labels", both)
    shutil.move(tmp_path / "some photos", both)
    moved = both / "labels" / path.name
    assert read(moved).table.root == both / "some photos" / "new"
    # The labels may be edited; and beside its images a file needs nobody to say where they are.
    if form == "csv-long":
        moved.write_text("image,labels\na.png,y\n")
        assert read(moved).table.root == both / "some photos" / "new"
        (both / "some photos" / "new" / "a.png").rename(moved.with_name("a.png"))
        assert read(moved).table.root == moved.parent
        write(replace(table, root=moved.parent), moved)
        assert not moved.with_name("seen.csv.observation.json").exists()


@pytest.mark.parametrize("images", [7, "\0", "nowhere", ["a"], None])
def test_a_sidecar_with_an_odd_folder_changes_nothing(tmp_path: Path, images: object) -> None:
    path = tmp_path / "seen.csv"
    path.write_text("image,labels\na.png,x\n")
    (tmp_path / "a.png").touch()
    sidecar = tmp_path / "seen.csv.observation.json"
    for content in ({"images": images}, [images], images):
        sidecar.write_text(json.dumps(content))
        assert read(path).table.root == tmp_path
