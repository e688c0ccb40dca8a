import numpy as np
import pytest

from plusone.data import lazy
from plusone.data.lazy import LazyArray, joined, rows_of

ONE = np.arange(8, dtype=np.float32).reshape(4, 2)
TWO = 100 + np.arange(6, dtype=np.float32).reshape(3, 2)
BOTH = np.concatenate([ONE, TWO])


@pytest.mark.parametrize(
    "key", [3, -1, slice(1, 6, 2), [6, 0, 6], np.arange(7) % 2 == 0, np.zeros(0, dtype=np.int64)]
)
@pytest.mark.parametrize("order", [None, np.array([6, 2, 0, 5, 1, 4, 3])])
def test_rows_are_those_of_one_array(key, order) -> None:
    array = LazyArray([ONE, TWO], order)
    plain = BOTH if order is None else BOTH[order]
    assert np.array_equal(array[key], plain[key])
    assert array[key].dtype == plain.dtype


def test_it_looks_like_an_array() -> None:
    array = LazyArray([ONE, TWO.astype(np.float16)])
    assert (array.shape, array.ndim, array.nbytes, len(array)) == ((7, 2), 2, 56, 7)
    assert array.dtype == np.float32
    assert np.array_equal(np.asarray(array), BOTH)
    assert np.asarray(array, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.array(array, copy=False)


def test_views_of_views_copy_nothing() -> None:
    first = rows_of(ONE, np.array([3, 1, 0]))
    second = rows_of(first, np.array([2, 0]))
    assert second.pieces[0] is ONE
    assert np.array_equal(second[:], ONE[[0, 3]])


def test_large_arrays_are_joined_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    view = rows_of(TWO, np.array([2, 0]))
    small = joined([ONE, view])
    assert isinstance(small, np.ndarray)
    monkeypatch.setattr(lazy, "LARGE", 10)
    large = joined([ONE, view])
    assert isinstance(large, LazyArray)
    assert large.pieces == (ONE, TWO)
    assert np.array_equal(large[:], small)
    assert joined([ONE]) is ONE
