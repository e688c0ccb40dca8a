"""Validation of the inputs of all metrics, and their conversion to numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

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

Unknown = Literal["auto", "masked", "negative", "positive"]
"""What a 0 in the truth means.

`"masked"`: the label is unknown and does not count. `"negative"` and `"positive"`: unknown labels
count as such. These two are no bounds: the masked value is measured on fewer labels and can lie
outside of them, and so can the value if all labels were known. `"auto"`: `"masked"` if the truth
holds a -1, else `"negative"`: a table of 0 and 1 has no unknown label.
"""

BLOCK = 1 << 24  # labels processed at once


def validate(
    scores: Array, truth: Array, unknown: Unknown = "auto"
) -> tuple[Floats, Bools, Bools | None]:
    """Checks scores and true labels, and returns them as numpy arrays on the CPU.

    Args:
        scores: `[N, L]`, any float type; infinite values are allowed, NaN is not.
        truth: `[N, L]`, 1 for a positive, -1 for a negative, and 0 as `unknown` says.
        unknown: What a 0 means.

    Returns:
        The scores `[N, L]` (float32 if they had at most 32 bits, else float64; never rounded), the
        positives `[N, L]` as booleans, and which labels are known `[N, L]`, None if all are. They
        may share memory with the inputs.

    >>> import torch
    >>> validate(torch.tensor([[0.5, 0.25, 0.5]]), torch.tensor([[1, -1, 0]]))[1:]
    (array([[ True, False, False]]), array([[ True,  True, False]]))
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
    return values, *_states(validate_labels(truth, values.shape, "truth"), unknown)


def _states(labels: NDArray[Any], unknown: Unknown) -> tuple[Bools, Bools | None]:
    """The positives, and which labels are known; None if all are."""
    if unknown not in get_args(Unknown):
        raise ValueError(f"unknown must be one of {get_args(Unknown)}, got {unknown!r}.")
    if unknown == "positive":
        return labels >= 0, None
    three = unknown == "masked" or (
        unknown == "auto" and labels.dtype.kind in "fi" and bool((labels == -1).any())
    )
    known = labels != 0 if three else None
    return labels == 1, None if known is None or known.all() else known


def three_states(positive: Bools, known: Bools | None) -> tuple[Array, Unknown]:
    """A truth for other metrics that has the same labels known, and what its zeros mean."""
    if known is None:
        return positive, "negative"
    return np.where(known, 2 * positive.astype(np.int8) - 1, 0), "masked"


def validate_labels(labels: Array, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Labels as a numpy array; a `ValueError` unless they have this shape and are 1, 0 and -1.

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


def row_blocks(
    values: Floats, positive: Bools, known: Bools | None = None
) -> Iterator[tuple[Floats, Bools, Bools | Literal[True]]]:
    """Scores, positives and what is known of a block of rows, to bound memory; True for all."""
    step = max(1, BLOCK // values.shape[1])
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        yield values[rows], positive[rows], True if known is None else known[rows]


def mean_over_classes(values: Floats, has_positive: Bools, empty: Empty) -> float:
    """The mean of `values` `[L]`; `empty` says how classes without a positive count.

    `"skip"` leaves them out (NaN if none is left), `"zero"` counts them as 0. Their values are not
    used, and may be NaN.

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


def ratio(
    part: float | np.integer[Any], whole: float | np.integer[Any], otherwise: float = float("nan")
) -> float:
    """`part / whole`, or `otherwise` if `whole` is 0.

    >>> ratio(1, 4), ratio(0, 0), ratio(0, 0, otherwise=0.0)
    (0.25, nan, 0.0)
    """
    return float(part / whole) if whole else otherwise


def _numpy(array: Array) -> NDArray[Any]:
    """The values as a numpy array; bfloat16, which numpy lacks, becomes float32."""
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        return (array.float() if array.dtype == bfloat16 else array).numpy()
    return np.asarray(array)
