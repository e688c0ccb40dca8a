"""`LabelTable` and the split of validation rows."""

from pathlib import Path

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable, hold_out_validation
from plusone.errors import InputError


def table(n: int = 10, **rest: object) -> LabelTable:
    truth = LabelMatrix.from_dense(np.eye(n, 3, dtype=np.int8), default=-1)
    return LabelTable.complete([f"i{row}" for row in range(n)], ["a", "b", "c"], truth, **rest)


def test_shapes_must_agree() -> None:
    labels = LabelMatrix.from_dense([[1, 0]])
    with pytest.raises(ValueError, match=r"labels have shape \(1, 2\), expected \(2, 2\)"):
        LabelTable(np.array(["a", "b"]), ("x", "y"), labels)
    with pytest.raises(ValueError, match="split has 2 entries for 1 items"):
        LabelTable(np.array(["a"]), ("x", "y"), labels, split=np.array(["train", "val"]))


def test_take_keeps_everything_together() -> None:
    whole = table(4, split=np.array(["train", "test", "train", "val"]), notes=("n",))
    part = whole.take([2, 0])
    assert part.ids.tolist() == ["i2", "i0"]
    assert part.split is not None
    assert part.split.tolist() == ["train", "train"]
    assert part.labels.dense().tolist() == [[-1, -1, 1], [1, -1, -1]]
    assert part.truth is not None
    assert part.truth.digest() == part.labels.digest()
    assert part.notes == ("n",)


def test_rows_of_a_table_without_splits_are_training_rows() -> None:
    assert table(3).rows_of("train").tolist() == [0, 1, 2]
    assert table(3).rows_of("val").tolist() == []


def test_complete() -> None:
    assert table().is_complete
    labels = LabelMatrix.from_dense([[1, 0]])
    assert not LabelTable(np.array(["a"]), ("x", "y"), labels).is_complete


def test_paths() -> None:
    assert table(root=Path("/d")).path(1) == Path("/d/i1")
    with pytest.raises(InputError, match="item i1 has no image file"):
        table().path(1)


def test_held_out_rows_follow_the_protocol() -> None:
    held = hold_out_validation(table(12, split=np.array(["test"] * 2 + ["train"] * 10)))
    expected = 2 + np.random.RandomState(1200).permutation(10)[8:]
    assert held.rows_of("val").tolist() == sorted(expected.tolist())
    assert len(held.rows_of("train")) == 8
    assert held.rows_of("test").tolist() == [0, 1]
    assert hold_out_validation(held) is held
    assert len(hold_out_validation(table(10), share=0.3).rows_of("val")) == 3


def test_a_data_set_shows_its_sizes_and_refuses_one_dimension() -> None:
    labels = np.eye(3, dtype=np.int8)
    data = Dataset.from_arrays(np.zeros((3, 7)), labels, name="scene")
    assert repr(data) == "Dataset('scene', 3 items, 3 classes, inputs (7,))"
    with pytest.raises(InputError, match=r"shape \(3,\).*\[N, D\]"):
        Dataset.from_arrays(np.zeros(3), labels)
