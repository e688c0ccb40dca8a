"""From answers to labels."""

from __future__ import annotations

import numpy as np
import pytest

from plusone.data.formats import read, write
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.reviewing import apply_answers


def table(dense, default=0, **rest):
    labels = LabelMatrix.from_dense(dense, default=default)
    ids = np.array([f"{row}.png" for row in range(len(labels))])
    return LabelTable(ids, ("cat", "dog", "fox"), labels, **rest)


def test_yes_is_positive_and_no_is_negative():
    before = table([[1, 0, 0], [0, 1, 0]])
    after = apply_answers(before, [1, 0, 0], [0, 2, 1], [True, False, True])
    assert after.labels.dense().tolist() == [[1, 1, -1], [1, 1, 0]]
    assert before.labels.dense().tolist() == [[1, 0, 0], [0, 1, 0]]
    assert after.observation == {
        "scheme": "given",
        "answers": 3,
        "digest": after.labels.digest(),
    }


def test_the_last_answer_counts_and_replaces_what_was_seen():
    after = apply_answers(table([[1, 0, -1]]), [0, 0, 0, 0], [1, 0, 1, 2], [1, 0, 0, 1])
    assert after.labels.dense().tolist() == [[-1, -1, 1]]


def test_answers_add_up():
    once = apply_answers(table([[1, 0, 0]], observation={"scheme": "single()"}), [0], [1], [True])
    twice = apply_answers(once, [0], [2], [False])
    assert twice.observation["answers"] == 2
    assert twice.observation["scheme"] == "single()"
    assert apply_answers(twice, [], [], []).labels.digest() == twice.labels.digest()


def test_a_table_with_another_default():
    after = apply_answers(table([[1, 0, 0]], default=-1), [0, 0], [0, 1], [False, True])
    assert after.labels.dense().tolist() == [[-1, 1, -1]]
    assert after.labels.nnz == 1


@pytest.mark.parametrize(("row", "label"), [(-1, 0), (0, 3), (1, 0), (0, -1)])
def test_answers_about_nothing_are_refused(row, label):
    with pytest.raises(ValueError, match="outside the table of 1 x 3"):
        apply_answers(table([[1, 0, 0]]), [row], [label], [True])


@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet"])
def test_what_is_written_is_read_back(tmp_path, suffix):
    after = apply_answers(table([[1, 0, 0], [0, 1, 0]]), [0, 1], [2, 0], [False, True])
    write(after, tmp_path / f"labels.{suffix}")
    again = read(tmp_path / f"labels.{suffix}").table
    assert again.labels.dense().tolist() == after.labels.dense().tolist()
    assert again.classes == after.classes
