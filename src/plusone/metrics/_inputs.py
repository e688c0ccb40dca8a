"""Validation of the inputs of all metrics, and their conversion to numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, bfloat16

Array = Tensor | NDArray[Any]
"""Scores or labels, `[N, L]`: N items, L labels."""

Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]

Cut = float | NDArray[np.floating[Any]]
"""A threshold: one for all labels, or `[L]`."""

Empty = Literal["skip", "zero"]
"""Classes without a positive: left out of a mean over classes, or counted as 0."""

BLOCK = 1 << 24  # labels processed at once


def validate(scores: Array, truth: Array) -> tuple[Floats, Bools]:
    """Checks scores and true labels, and returns them as numpy arrays on the CPU.

    Args:
        scores: `[N, L]`, any float type; infinite values are allowed, NaN is not.
        truth: `[N, L]`, 1 for a positive; 0 and -1 both mean negative.

    Returns:
        The scores `[N, L]` (float32 if they had at most 32 bits, else float64; never rounded) and
        the positives `[N, L]` as booleans. Both may share memory with the inputs.

    Raises:
        ValueError: An input has a wrong shape, type or value.

    >>> import torch
    >>> validate(torch.tensor([[0.5, 0.25]]), torch.tensor([[1, -1]]))[1]
    array([[ True, False]])
    """
    values = _numpy(scores)
    if values.ndim != 2 or values.size == 0:
        raise ValueError(
            "scores must be two-dimensional, [items, labels], with at least one of each, "
            f"got shape {values.shape}."
        )
    if values.dtype.kind not in "fiub":
        raise ValueError(f"scores must be real numbers, got the type {values.dtype}.")
    narrow = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    values = values.astype(np.float32 if narrow else np.float64, copy=False)
    nan = np.isnan(values)
    if nan.any():
        row, column = np.argwhere(nan)[0]
        raise ValueError(f"scores must not be NaN, got NaN at item {row}, label {column}.")
    return values, validate_labels(truth, values.shape, "truth") == 1


def validate_labels(labels: Array, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Checks that labels have the given shape and hold 1, 0 and -1 only.

    Args:
        labels: `[N, L]`, boolean, integer or float.
        shape: The shape of the scores they belong to.
        name: Their name in error messages.

    Returns:
        The labels `[N, L]` as a numpy array.

    Raises:
        ValueError: The shape differs, or a value is not 1, 0 or -1.

    >>> validate_labels(np.array([[1, 2]]), (1, 2), "truth")
    Traceback (most recent call last):
    ValueError: truth must hold 1, 0 and -1 only, got 2 at item 0, label 1.
    """
    values = _numpy(labels)
    if values.shape != shape:
        raise ValueError(f"{name} must have the shape of scores, {shape}, got {values.shape}.")
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers or booleans, got the type {values.dtype}.")
    if values.dtype.kind != "b":
        bad = (values != 0) & (values != 1) & (values != -1)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(
                f"{name} must hold 1, 0 and -1 only, got {values[row, column]} "
                f"at item {row}, label {column}."
            )
    return values


def row_blocks(values: Floats, positive: Bools) -> Iterator[tuple[Floats, Bools]]:
    """Scores and positives in blocks of rows, to bound the memory of what is computed from them."""
    step = max(1, BLOCK // values.shape[1])
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        yield values[rows], positive[rows]


def mean_over_classes(values: Floats, has_positive: Bools, empty: Empty) -> float:
    """The mean over classes; `empty` says how classes without a positive count.

    Args:
        values: `[L]`; any value (also NaN) where a class has no positive.
        has_positive: `[L]`.
        empty: `"skip"` leaves such classes out (NaN if none is left), `"zero"` counts them as 0.

    Returns:
        The mean.

    Raises:
        ValueError: `empty` is neither.

    >>> values, has_positive = np.array([0.5, np.nan]), np.array([True, False])
    >>> mean_over_classes(values, has_positive, "skip")
    0.5
    >>> mean_over_classes(values, has_positive, "zero")
    0.25
    """
    if empty not in ("skip", "zero"):
        raise ValueError(f'empty must be "skip" or "zero", got {empty!r}.')
    counted = values[has_positive]
    count = counted.size if empty == "skip" else values.size
    return float(counted.sum() / count) if count else float("nan")


def ratio(part: float, whole: float, otherwise: float = float("nan")) -> float:
    """`part / whole`, or `otherwise` if `whole` is 0.

    >>> ratio(1, 4), ratio(0, 0), ratio(0, 0, otherwise=0.0)
    (0.25, nan, 0.0)
    """
    return float(part / whole) if whole else otherwise


def _numpy(array: Array) -> NDArray[Any]:
    """The values as a numpy array; bfloat16, which numpy lacks, becomes float32."""
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        plain: NDArray[Any] = (array.float() if array.dtype == bfloat16 else array).numpy()
        return plain
    return np.asarray(array)
