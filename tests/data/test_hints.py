"""Hint files: reading, matching, refusing."""

from dataclasses import replace

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.data.formats import read, write
from plusone.data.hints import read_hints, with_hints, write_hints
from plusone.data.inspect import summarise
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError

TABLE = LabelTable(
    np.array(["d/a.jpg", "b.jpg", "c.jpg"]),
    ("cat", "dog"),
    LabelMatrix.from_dense([[1, 0], [0, 1], [1, 0]]),
    split=np.array(["train", "train", "test"]),
)


def test_items_and_classes_are_matched_by_name(tmp_path):
    path = tmp_path / "h.npz"
    write_hints(path, ["b.jpg", "a", "other"], ["dog", "sea"], [[0.1, 0.2], [0.3, 0.4], [0, 1]], {})
    table = with_hints(TABLE, path)
    expected = [[np.nan, 0.3], [np.nan, 0.1], [np.nan, np.nan]]
    np.testing.assert_array_equal(table.hints, np.float32(expected))
    counts = summarise(table).hints
    assert (counts.items, counts.classes) == ({"train": 2}, 1)
    taken = table.take([1, 0]).with_classes(["dog", "cat"])
    np.testing.assert_array_equal(taken.hints[:, 0], np.float32([0.1, 0.3]))
    assert summarise(TABLE).hints is None


def test_a_label_file_carries_them(tmp_path):
    hints = np.float32([[0.25, np.nan], [0, 1], [0.5, 0.5]])
    write(replace(TABLE, hints=hints), tmp_path / "labels.npz")
    np.testing.assert_array_equal(read(tmp_path / "labels.npz").table.hints, hints)
    arrays = dict(np.load(tmp_path / "labels.npz"))
    for wrong, sentence in ((hints[:2], "is damaged"), (hints + 1, "outside")):
        np.savez(tmp_path / "bad.npz", **arrays | {"hints": wrong})
        with pytest.raises(InputError, match=sentence):
            read(tmp_path / "bad.npz")


def test_columns_without_names_are_the_classes(tmp_path):
    np.savez(tmp_path / "h.npz", x=np.eye(3, 2), ids=TABLE.ids)
    assert with_hints(TABLE, tmp_path / "h.npz").hints.tolist() == np.eye(3, 2).tolist()


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": [[0.1, 1.5]], "ids": ["b.jpg"]}, "row 0: the hint 1.5 is outside [0, 1]"),
        ({"x": [[0.1, 0.2]]}, "needs the arrays x and ids (or names), found x"),
        ({"x": [0.1], "ids": ["b.jpg"]}, "expected scores [N, L] and names [N]"),
        ({"x": [[0.1]], "ids": ["b.jpg"]}, "has 1 columns without names for 2 classes"),
        ({"x": [[0.1, 0.2]], "ids": ["z"]}, "has hints for none of the items, such as d/a.jpg"),
        ({"x": [[0.1]], "ids": ["b"], "classes": ["sea"]}, "has hints for none of the classes"),
        ({"x": [[0.1]], "ids": ["b"], "classes": ["a", "b"]}, "has 2 classes for 1 columns"),
        ({"x": [[0, 0]], "ids": ["b"], "classes": ["cat", "cat"]}, "has a class twice"),
        ({"x": [[0, 0]] * 2, "ids": ["b.jpg"] * 2}, "fit several rows of the hints: b.jpg"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, arrays, sentence):
    path = tmp_path / "h.npz"
    np.savez(path, **{name: np.array(value) for name, value in arrays.items()})
    with pytest.raises(InputError) as caught:
        with_hints(TABLE, path)
    assert sentence in str(caught.value)


def test_missing_and_damaged_files(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK no")
    for name, sentence in (("none.npz", "no such file"), ("bad.npz", "is not a readable npz")):
        with pytest.raises(InputError, match=sentence):
            read_hints(tmp_path / name)


def test_arrays_in_memory():
    x = np.zeros((2, 3), dtype=np.float32)
    data = Dataset.from_arrays(x, [[1, 0], [0, 1]], hints=[[0.5, np.nan], [0, 1]])
    assert data.table.hints.dtype == np.float32
    with pytest.raises(InputError, match=r"row 1: the hint -0.5 is outside \[0, 1\]"):
        Dataset.from_arrays(x, [[1, 0], [0, 1]], hints=[[0.5, 0.5], [-0.5, 1]])
