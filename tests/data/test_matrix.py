"""`LabelMatrix` against plain arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from plusone.data.matrix import LabelMatrix

states = hnp.arrays(
    np.int8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(-1, 1)
)


@given(states, st.sampled_from([0, -1]), st.data())
def test_every_operation_agrees_with_the_dense_array(
    dense: np.ndarray, default: int, data: st.DataObject
) -> None:
    matrix = LabelMatrix.from_dense(dense).with_default(default)
    assert matrix.default == default
    assert matrix.nnz == (dense != default).sum()
    np.testing.assert_array_equal(matrix.dense(), dense)
    assert matrix.with_default(0).digest() == LabelMatrix.from_dense(dense).digest()
    for state in (1, 0, -1):
        np.testing.assert_array_equal(matrix.per_item(state), (dense == state).sum(1))
        np.testing.assert_array_equal(matrix.per_class(state), (dense == state).sum(0))
    rows = data.draw(st.lists(st.integers(0, len(dense) - 1)))
    np.testing.assert_array_equal(matrix.take(rows).dense(), dense[rows])
    np.testing.assert_array_equal(matrix.dense(rows), dense[rows])
    for row in range(len(dense)):
        assert matrix.positives(row).tolist() == np.flatnonzero(dense[row] == 1).tolist()
    only = matrix.only_positives(default=-1).dense()
    np.testing.assert_array_equal(only, np.where(dense == 1, 1, -1))
    twice = LabelMatrix.concatenate([matrix, matrix.take(rows)])
    np.testing.assert_array_equal(twice.dense(), np.concatenate([dense, dense[rows]]))


@given(states)
def test_entries_may_come_in_any_order(dense: np.ndarray) -> None:
    rows, columns = np.nonzero(dense)
    order = np.random.default_rng(0).permutation(len(rows))
    matrix = LabelMatrix.from_entries(
        rows[order], columns[order], dense[rows, columns][order], dense.shape
    )
    assert matrix.digest() == LabelMatrix.from_dense(dense).digest()


def test_zero_is_a_negative_in_a_truth() -> None:
    assert LabelMatrix.from_dense([[1, 0, -1]], default=-1).dense().tolist() == [[1, -1, -1]]


def test_lists() -> None:
    matrix = LabelMatrix.from_lists([[0], [], [2, 1]], 3, negatives=[[1], [], [0]])
    assert matrix.dense().tolist() == [[1, -1, 0], [0, 0, 0], [-1, 1, 1]]


def test_the_digest_sees_every_part() -> None:
    base = LabelMatrix.from_dense([[1, 0], [0, 1]])
    others = [
        LabelMatrix.from_dense([[1, 0], [1, 0]]),
        LabelMatrix.from_dense([[1, 0], [0, -1]]),
        LabelMatrix.from_dense([[1, 0, 0], [0, 1, 0]]),
        base.only_positives(default=-1),
    ]
    assert len({base.digest(), *(other.digest() for other in others)}) == 5


@pytest.mark.parametrize(
    ("array", "sentence"), [([1, 0], "two dimensions"), ([[2]], "not 2"), ([[0.5]], "not 0.5")]
)
def test_bad_arrays(array: list[object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        LabelMatrix.from_dense(array)
