"""Labels in the forms that `fit` accepts, as class names and a three-state matrix."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from plusone.data._arrow import in_memory, is_table
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError

Names = npt.NDArray[Any]

STATES = "1 (present), 0 (unobserved) and -1 (absent)"


@dataclass(frozen=True)
class Labels:
    """Labels of many items.

    Args:
        classes: Names of the classes `[L]`: strings or numbers.
        matrix: Seen labels, `[N, L]`.
        unknown: Classes that were left out because they are not among the given ones.
    """

    classes: Names
    matrix: LabelMatrix
    unknown: tuple[Any, ...] = ()


def read_labels(y: Any, classes: Names | None = None) -> Labels:
    """Labels in any of the accepted forms.

    | form | meaning |
    | --- | --- |
    | one class per item: list, array `[N]`, Series | the one label that was seen |
    | lists of labels: list of lists, tuples or sets, Series of them | all that were seen |
    | matrix `[N, L]`: array, tensor, scipy sparse, DataFrame | 1 present, 0 unobserved, -1 absent |

    Tables of polars, DuckDB and pyarrow have one column, of classes or of lists, or are a matrix.

    Nested Python lists are lists of labels, unless no item could have such a list: rows of equal
    length that hold nothing but 1, 0 and -1, some of them twice, are a matrix.

    Args:
        y: The labels.
        classes: Classes of a fitted model; labels of others are left out and named in `unknown`.
            By default the classes are those that occur, sorted, or the columns of the matrix.

    >>> read_labels(["cat", "dog", "cat"]).matrix.dense().tolist()
    [[1, 0], [0, 1], [1, 0]]
    >>> read_labels([["cat", "dog"], []]).classes.tolist()
    ['cat', 'dog']
    """
    if np.ma.is_masked(y):
        raise InputError("y has masked values; in a matrix, 0 stands for an unobserved label")
    if y is None:
        raise InputError(
            "PlusOneClassifier requires y to be passed, but the target y is None: give one class "
            "per item, lists of labels, or a matrix of labels"
        )
    if isinstance(y, LabelMatrix):
        return _of_matrix(y, None, classes)
    if is_table(y) and not hasattr(y, "iloc"):  # data frames of pandas are arrays already
        return _of_table(in_memory(y, "y"), classes)
    if hasattr(y, "tocsr"):
        return _of_matrix(_sparse(y), None, classes)
    columns = getattr(y, "columns", None)
    values = _values(y)
    if values is None:
        return _of_lists(list(y), classes)
    if values.ndim == 2 and not (values.shape[1] == 1 and not _are_states(values)):
        names = None if columns is None else np.asarray(list(columns))
        _check_states(values)
        return _of_matrix(LabelMatrix.from_dense(values), names, classes)
    if values.ndim == 2:
        _warn_about_column()
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"y has shape {values.shape}: give one class per item or a matrix [N, L]")
    return _of_classes(values, classes)


def _of_table(table: Any, classes: Names | None) -> Labels:
    """One column of classes or of lists of them, or a matrix with a column for each class."""
    if table.num_columns == 1:
        cells = table.column(0).to_pylist()
        lists = any(isinstance(cell, list) for cell in cells)
        return read_labels([cell or [] for cell in cells] if lists else cells, classes)
    states = np.stack([np.asarray(column.to_numpy()) for column in table.columns], axis=1)
    _check_states(states)
    matrix = LabelMatrix.from_dense(states)
    return _of_matrix(matrix, np.asarray(table.column_names), classes)


def _values(y: Any) -> npt.NDArray[Any] | None:
    """The labels as an array of numbers or strings; None if they are lists of labels."""
    if hasattr(y, "detach"):  # a tensor
        return np.asarray(y.detach().cpu())
    labels = y if isinstance(y, (list, tuple)) else np.asarray(y)
    if isinstance(labels, np.ndarray) and labels.dtype != np.dtype(object):
        return labels
    if getattr(labels, "ndim", 1) == 1 and any(_is_list(row) for row in labels):
        return np.asarray(list(labels)) if _is_nested_matrix(labels) else None
    return _of_one_kind(labels)


def _of_one_kind(labels: Any) -> npt.NDArray[Any]:
    """Python objects as an array, refusing what numpy would silently turn into text."""
    array = np.asarray(labels, dtype=object)
    width = max(array.size // max(len(array), 1), 1)
    for place, value in enumerate(array.flat):
        row = place // width
        if not isinstance(value, (str, numbers.Real, np.bool_)):
            raise InputError(
                f"row {row} of y is {value!r}: classes are strings or whole numbers; for items "
                "without a seen label give lists of labels (an empty one there) or a matrix"
            )
        if isinstance(value, str) != isinstance(array.flat[0], str):
            raise InputError(f"y mixes strings and numbers: row {row} is {value!r}")
    return np.asarray(array.tolist())


def _is_list(value: Any) -> bool:
    several = isinstance(value, (list, tuple, set, frozenset))
    return several or (isinstance(value, np.ndarray) and value.ndim > 0)


def _is_nested_matrix(lists: Iterable[Any]) -> bool:
    """Whether nested lists are a matrix of states, refusing those that may be either."""
    rows = list(lists)
    ordered = all(isinstance(row, (list, tuple, np.ndarray)) for row in rows)
    if not ordered or len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:
        return False
    if not all(isinstance(value, numbers.Real) and value in (1, 0, -1) for value in chain(*rows)):
        return False
    if all(len(set(row)) == len(row) for row in rows):
        raise InputError(
            "y may be lists of labels or a matrix of 1, 0 and -1; pass np.asarray(y) for a matrix, "
            "or strings as labels"
        )
    return True


def _of_classes(values: npt.NDArray[Any], classes: Names | None) -> Labels:
    """One class per item."""
    if values.dtype.kind not in "biufUS":
        raise InputError(f"y holds {values.dtype}: classes must be strings or whole numbers")
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(
                f"Input y contains infinity or NaN, first in row {row}: for items without a seen "
                "label give lists of labels (an empty one there) or a matrix"
            )
        if (values != np.round(values)).any():
            bad = values[values != np.round(values)][0]
            raise InputError(
                f"Unknown label type: {bad} in y is not a class; classes are strings or whole "
                "numbers"
            )
    names, places = np.unique(values, return_inverse=True)
    rows = np.arange(len(values))
    matrix = LabelMatrix.from_entries(rows, places, 1, (len(values), len(names)))
    return _onto(Labels(names, matrix), classes)


def _of_lists(lists: Sequence[Any], classes: Names | None) -> Labels:
    """All seen labels of each item."""
    rows = [_row(number, entry) for number, entry in enumerate(lists)]
    kinds = {isinstance(label, str) for row in rows for label in row}
    if len(kinds) > 1:
        raise InputError("y mixes strings and numbers as labels; use one kind")
    names = np.asarray(sorted({label for row in rows for label in row}))
    if not names.size:
        names = np.asarray([], dtype=np.str_)
    place = {name: number for number, name in enumerate(names.tolist())}
    matrix = LabelMatrix.from_lists([[place[label] for label in row] for row in rows], len(names))
    return _onto(Labels(names, matrix), classes)


def _row(number: int, entry: Any) -> list[Any]:
    """The labels of one item as plain strings or ints."""
    if not _is_list(entry):
        raise InputError(f"y has a list in some rows, but row {number} is {entry!r}, not a list")
    labels = [label.item() if isinstance(label, np.generic) else label for label in entry]
    for label in labels:
        if not isinstance(label, (str, numbers.Integral)):
            raise InputError(
                f"row {number} of y holds {label!r}: labels must be strings or whole numbers"
            )
    if len(set(labels)) != len(labels):
        raise InputError(f"row {number} of y names a label twice")
    return labels


def _of_matrix(matrix: LabelMatrix, names: Names | None, classes: Names | None) -> Labels:
    """The states of all classes; columns without names are the given classes in order."""
    if names is None and classes is not None:
        if len(classes) != matrix.n_classes:
            raise InputError(
                f"y has {matrix.n_classes} columns, but the model was fitted with {len(classes)} "
                "classes"
            )
        return Labels(classes, matrix)
    if names is not None and len(set(names.tolist())) != len(names):
        raise InputError("two columns of y have the same name; each class needs its own")
    shown = np.arange(matrix.n_classes) if names is None else names
    return _onto(Labels(shown, matrix), classes)


def _onto(labels: Labels, classes: Names | None) -> Labels:
    """The same labels over the given classes."""
    if classes is None or np.array_equal(labels.classes, classes):
        return labels
    place = {name: number for number, name in enumerate(classes.tolist())}
    target = np.array([place.get(name, -1) for name in labels.classes.tolist()], dtype=np.int64)
    old = labels.matrix
    columns = target[old.indices]
    is_known = columns >= 0
    matrix = LabelMatrix.from_entries(
        old.row_of_entry()[is_known],
        columns[is_known],
        old.values[is_known],
        (len(old), len(classes)),
        default=old.default,
    )
    unknown = np.unique(old.indices[~is_known & (old.values == 1)])
    return Labels(classes, matrix, unknown=tuple(labels.classes[unknown].tolist()))


def _sparse(y: Any) -> LabelMatrix:
    """A scipy matrix; entries that are not stored are 0."""
    rows = csr_array(y, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    _check_states(rows.data)
    return LabelMatrix(rows.astype(np.int8))


def _are_states(values: npt.NDArray[Any]) -> bool:
    return values.dtype.kind in "biuf" and bool(np.isin(values, (1, 0, -1)).all())


def _check_states(values: npt.NDArray[Any]) -> None:
    if _are_states(values):
        return
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"Input y contains NaN or infinity; a matrix of labels holds {STATES}")
    if values.dtype.kind not in "biuf":
        raise InputError(f"y is a matrix of {values.dtype}; a matrix of labels holds {STATES}")
    bad = values[~np.isin(values, (1, 0, -1))].flat[0]
    raise InputError(
        f"Unknown label type: y is a matrix that holds {bad}, but a matrix of labels holds {STATES}"
    )


def _warn_about_column() -> None:
    import warnings

    from sklearn.exceptions import DataConversionWarning

    warnings.warn(
        "A column-vector y was passed when a 1d array was expected: it is read as one class per "
        "item.",
        DataConversionWarning,
        stacklevel=4,
    )
