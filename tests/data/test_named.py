"""Which seen positives were named, and which are answers, in every format that keeps it."""

import numpy as np
import pytest

from plusone.data.formats import read, write
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.probabilities.answers import ANSWERED, answers_in, marked_labels
from plusone.reviewing import apply_answers


def answered_table() -> LabelTable:
    seen = LabelTable(
        np.array(["a", "b", "c"]), ("x", "y", "z"), LabelMatrix.from_dense(np.eye(3, dtype=int))
    )
    return apply_answers(seen, [0, 0, 1, 2], [1, 2, 1, 0], [True, False, False, True])


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
def test_files_keep_it(tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    table = answered_table()
    write(table, tmp_path / f"labels{suffix}")
    found = read(tmp_path / f"labels{suffix}").table
    assert found.labels.dense().tolist() == [[1, 1, -1], [0, -1, 0], [1, 0, 1]]
    # what a person called wrong was not named rightly
    assert found.named.dense().tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    taken = found.take([2, 0]).with_classes(("z", "x"))
    assert taken.named.dense().tolist() == [[1, 0], [0, 1]]


def test_answers_are_marked():
    table = answered_table()
    marked = marked_labels(table.labels, table.named)
    assert marked.dense().tolist() == [[1, ANSWERED, -1], [0, -1, 0], [ANSWERED, 0, 1]]
    assert answers_in(marked) is None  # too few to tell
    many = answers_in(marked.take(np.repeat(np.arange(3), 10)))
    assert (len(many), int(many.yes.sum())) == (40, 20)
    assert answers_in(marked_labels(table.labels, None)) is None


def test_a_named_label_is_a_seen_one(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("image,labels,named\na,x,y\n")
    with pytest.raises(InputError, match=r"row 2.*'y' is in named but not in labels"):
        read(path)
