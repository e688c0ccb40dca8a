"""The summary of a table, checked against counting by hand."""

import json
from pathlib import Path

import numpy as np

from plusone.data.formats import read
from plusone.data.inspect import summarise
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe_table
from plusone.data.table import LabelTable


def test_counts_by_hand() -> None:
    labels = LabelMatrix.from_dense([[1, 0, -1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    truth = LabelMatrix.from_dense([[1, 0, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0]], default=-1)
    table = LabelTable(
        np.array(["a", "b", "c"]),
        ("w", "x", "y", "z"),
        labels,
        truth,
        np.array(["train", "train", "test"]),
        observation={"scheme": "by hand"},
        notes=("a note",),
    )
    found = summarise(table)
    assert (found.items, found.classes) == (3, 4)
    assert found.splits == {"train": 2, "test": 1}
    assert (found.positives.least, found.positives.mean, found.positives.most) == (0, 1.0, 2)
    assert found.positives.items == {0: 1, 1: 1, 2: 1}
    assert (found.seen_positives, found.seen_negatives) == (3, 1)
    assert found.unobserved_share == 8 / 12
    assert (found.rows_without_positive, found.rows_with_several) == (1, 1)
    assert [count.seen_positive for count in found.per_class] == [2, 1, 0, 0]
    assert [count.seen_negative for count in found.per_class] == [0, 0, 1, 0]
    assert [count.true_positive for count in found.per_class] == [2, 2, 1, 0]
    assert found.classes_without_positive == ("y", "z")
    assert found.true_positives is not None
    assert found.true_positives.items == {1: 2, 3: 1}
    assert not found.complete
    assert not found.images
    assert json.loads(json.dumps(found.to_dict()))["observation"] == {"scheme": "by hand"}


def test_a_complete_table_without_splits() -> None:
    truth = LabelMatrix.from_dense([[1, 0], [0, 1]], default=-1)
    found = summarise(LabelTable.complete(["a", "b"], ["x", "y"], truth))
    assert found.complete
    assert found.unobserved_share == 0
    assert found.seen_negatives == 2
    assert found.splits == {}


def test_a_table_without_rows() -> None:
    found = summarise(
        LabelTable(np.zeros(0, dtype="<U1"), ("x",), LabelMatrix.from_dense(np.zeros((0, 1))))
    )
    assert found.items == 0
    assert found.unobserved_share == 0
    assert found.positives.items == {}


def test_real_voc_single_positive(shared: Path) -> None:
    table = observe_table(read(shared / "data" / "VOCdevkit").table)
    found = summarise(table)
    assert found.splits == {"train": 5717, "test": 5823}
    assert found.positives.items == {1: 11540}
    assert found.rows_without_positive == found.rows_with_several == 0
    assert found.true_positives is not None
    assert round(found.true_positives.mean, 3) == 1.446
    assert found.images


def test_one_class_with_most_labels_is_named() -> None:
    """Of what people named; where all labels are known, nothing was picked."""
    counts = [49, 5, 5, 4, 3]
    rows = [[label] for label, count in enumerate(counts) for _ in range(count)]
    labels = LabelMatrix.from_lists(rows, 5)
    ids, names = np.arange(len(rows)).astype(str), ("person", "dog", "cat", "car", "bus")
    (warning,) = summarise(LabelTable(ids, names, labels)).warnings
    assert "'person' is 74 %" in warning
    assert "salience" in warning
    assert not summarise(LabelTable.complete(ids, names, labels.with_default(-1))).warnings
