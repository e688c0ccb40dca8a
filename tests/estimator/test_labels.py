"""Every form of labels means what it says, and unclear ones are refused."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.estimator.labels import read_labels

STATES = np.array([[1, 0, -1], [0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    "y",
    [
        ["b", "a", "b"],
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
        pd.Series(["b", "a", "b"]),
        pd.Series(["b", "a", "b"], dtype="category"),
        ("b", "a", "b"),
        [["b"], ["a"], ["b"]],
        [{"b"}, ("a",), np.array(["b"])],
        pd.Series([["b"], ["a"], ["b"]]),
    ],
)
def test_one_class_per_item(y):
    labels = read_labels(y)
    assert labels.classes.tolist() == ["a", "b"]
    assert labels.matrix.dense().tolist() == [[0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize(
    "y", [[7, 3, 7], np.array([7.0, 3.0, 7.0]), torch.tensor([7, 3, 7]), [[7], [3], [7]]]
)
def test_classes_may_be_numbers(y):
    labels = read_labels(y)
    assert labels.classes.tolist() == [3, 7]
    assert labels.matrix.dense().tolist() == [[0, 1], [1, 0], [0, 1]]


def test_lists_hold_any_number_of_labels():
    labels = read_labels([["dog", "cat"], [], ["cat"]])
    assert labels.classes.tolist() == ["cat", "dog"]
    assert labels.matrix.dense().tolist() == [[1, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize(
    "y",
    [
        STATES,
        STATES.astype(np.float32),
        torch.from_numpy(STATES),
        sparse.csr_matrix(STATES),
        sparse.coo_array(STATES),
        STATES.tolist(),
        list(STATES),
        LabelMatrix.from_dense(STATES),
    ],
)
def test_a_matrix_keeps_its_three_states(y):
    labels = read_labels(y)
    assert labels.classes.tolist() == [0, 1, 2]
    assert labels.matrix.dense().tolist() == STATES.tolist()


def test_stored_zeros_and_repeats_of_a_sparse_matrix():
    rows, columns, values = [0, 0, 1, 1], [1, 0, 1, 1], [1, 0, 1, -2]
    given = sparse.coo_matrix((values, (rows, columns)), shape=(2, 2))
    assert read_labels(given).matrix.dense().tolist() == [[0, 1], [0, -1]]
    assert given.nnz == 4


def test_columns_of_a_frame_are_names():
    labels = read_labels(pd.DataFrame(STATES, columns=["z", "a", "m"]))
    assert labels.classes.tolist() == ["z", "a", "m"]
    assert labels.matrix.dense().tolist() == STATES.tolist()


def test_a_column_of_classes_is_read_as_such_and_said():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        labels = read_labels(pd.DataFrame({"label": ["b", "a", "b"]}))
    assert labels.classes.tolist() == ["a", "b"]


def test_known_classes_are_kept_in_order_and_others_named():
    labels = read_labels([["emu", "dog"], ["cat"]], np.array(["dog", "ant", "cat"]))
    assert labels.matrix.dense().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert labels.unknown == ("emu",)
    frame = pd.DataFrame([[1, -1]], columns=["cat", "dog"])
    assert read_labels(frame, np.array(["dog", "cat"])).matrix.dense().tolist() == [[-1, 1]]
    assert read_labels(STATES, np.array(["x", "y", "z"])).matrix.dense().tolist() == STATES.tolist()


@pytest.mark.parametrize(
    ("y", "why"),
    [
        (None, "target y is None"),
        ([0.5, 1.0], "Unknown label type: 0.5"),
        ([1.0, np.nan], r"contains infinity or NaN, first in row 1"),
        (["a", None], "row 1 of y is None"),
        (pd.Series(["a", None, "b"]), "y mixes strings and numbers: row 1 is nan|row 1 of y is"),
        (["a", 3], "mixes strings and numbers: row 1 is 3"),
        ([["a"], "b"], "row 1 is 'b', not a list"),
        ([["a", "a"]], "row 0 of y names a label twice"),
        ([["a"], [None]], "row 1 of y holds None"),
        ([["a"], [1]], "mixes strings and numbers"),
        ([[0, 1], [1, 0]], "may be lists of labels or a matrix"),
        (np.array([[1, 2, 0]]), "a matrix that holds 2"),
        (np.array([[1.0, np.nan, 0]]), "contains NaN"),
        (np.array([["a", "b"]]), "is a matrix of <U1"),
        (sparse.csr_matrix([[3, 0]]), "a matrix that holds 3"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "strings or whole numbers"),
        (pd.DataFrame([[1, 0]], columns=["a", "a"]), "same name"),
    ],
)
def test_what_is_unclear_is_refused(y, why):
    with pytest.raises(InputError, match=why):
        read_labels(y)


def test_a_matrix_must_fit_the_model():
    with pytest.raises(InputError, match="3 columns, but the model was fitted with 2"):
        read_labels(STATES, np.array(["a", "b"]))
