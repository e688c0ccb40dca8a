"""`Dataset`: a label table and, optionally, the features of its items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data._arrow import numbers
from plusone.data.checks import check_groups, check_names, check_splits, row_not_finite
from plusone.data.lazy import LazyArray
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems


@dataclass(frozen=True)
class Skipped:
    """An item that is left out, such as one whose image cannot be read, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Dataset:
    """A label table and the inputs of its items.

    Args:
        table: Items, classes and labels.
        features: Row `i` belongs to `table.ids[i]`: float32 or float16 vectors `[N, D]` or tokens
            `[N, T, D]`, or images in memory, uint8 `[N, C, H, W]`; None for image files. They may
            be memory-mapped or lazy (`plusone.data.lazy`).
        name: A short name for reports, from the file or folder.
        broken: Items that were left out, see `plusone.data.broken`.
        made_by: What the file of the features says of the backbone that made them.
    """

    table: LabelTable
    features: npt.NDArray[Any] | LazyArray | None = None
    name: str = ""
    broken: tuple[Skipped, ...] = ()
    made_by: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        x: npt.ArrayLike | LazyArray,
        labels: npt.ArrayLike | LabelMatrix,
        *,
        complete: bool = False,
        classes: Sequence[str] | None = None,
        split: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        hints: npt.ArrayLike | None = None,
        name: str = "arrays",
    ) -> Dataset:
        """A data set from arrays in memory.

        Args:
            x: Features `[N, D]`, tokens `[N, T, D]`, or images uint8 `[N, C, H, W]`.
            labels: 1, 0, -1 as `[N, L]`; a `LabelMatrix` if that would be large.
            complete: Whether all labels are known, so that 0 means negative and training hides all
                but one positive; otherwise they are the seen labels, and 0 means unobserved.
            classes: Class names; numbers by default.
            split: "train", "val" or "test" for each item.
            groups: The group of each item, a name or a number, where items belong together.
            hints: Scores from elsewhere in [0, 1], `[N, L]`, NaN where there is none.
            name: A short name for reports.
        """
        problems = Problems(name)
        parts = None if split is None else check_splits(np.asarray(split), problems)
        check_names(tuple(classes or ()), problems)
        group_names = None if groups is None else np.asarray(groups).astype(np.str_)
        if group_names is not None:
            check_groups(group_names, problems)
        problems.raise_if_any()
        default = -1 if complete else 0
        if isinstance(labels, LabelMatrix):
            matrix = labels.with_default(default)
        else:
            matrix = LabelMatrix.from_dense(numbers(labels), default=default)
        table = LabelTable(
            ids=np.arange(len(matrix)).astype(np.str_),
            classes=tuple(classes or (str(number) for number in range(matrix.n_classes))),
            labels=matrix,
            truth=matrix if complete else None,
            split=parts,
            groups=group_names,
            hints=None if hints is None else as_hints(hints, name),
        )
        return cls(table, as_inputs(x, name), name)

    def __post_init__(self) -> None:
        if self.features is not None and len(self.features) != len(self.table):
            raise ValueError(f"features have {len(self.features)} rows for {len(self.table)} items")

    def __repr__(self) -> str:
        inputs = "images in files" if self.features is None else f"inputs {self.features.shape[1:]}"
        items, classes = self.table.labels.shape
        return f"Dataset({self.name!r}, {items} items, {classes} classes, {inputs})"


def as_hints(hints: npt.ArrayLike, name: str) -> npt.NDArray[np.float32]:
    """Hints as float32; `InputError` for a value outside [0, 1] that is not NaN."""
    scores = np.asarray(hints, dtype=np.float32)
    wrong = np.argwhere((scores < 0) | (scores > 1))
    if len(wrong):
        row = wrong[0][0]
        value = scores[tuple(wrong[0])]
        raise InputError(
            f"{name}, row {row}: the hint {value:g} is outside [0, 1]; turn scores into "
            "probabilities first (NaN is no hint)"
        )
    return scores


def as_inputs(x: npt.ArrayLike | LazyArray, name: str = "x") -> npt.NDArray[Any] | LazyArray:
    """Inputs in the types that models accept: uint8 images, float16 and float32; else float32."""
    x = numbers(x)
    if np.ma.is_masked(x):
        raise InputError(f"{name}: has masked values; fill them, or leave those items out")
    array = x if isinstance(x, LazyArray) else np.asarray(x)
    if array.ndim < 2:
        raise InputError(
            f"{name}: has the shape {array.shape}, which is one number for each item; features are "
            "rows of numbers, [N, D] (x.reshape(-1, 1) makes one column)"
        )
    if 0 in array.shape[1:]:
        raise InputError(f"{name}: has the shape {array.shape}, so there is nothing to learn from")
    if array.ndim == 4 and array.dtype != np.uint8:
        raise InputError(f"images must be bytes (uint8, 0 to 255), not {array.dtype}")
    small = array.dtype in (np.float16, np.float32)
    if isinstance(array, np.ndarray) and array.dtype.kind == "f":
        row = row_not_finite(array)
        if row is not None:
            raise InputError(f"{name}, row {row}: has a NaN or infinite value")
    if small or (array.dtype == np.uint8 and array.ndim == 4):
        return array
    with np.errstate(over="ignore"):
        converted = np.asarray(array, dtype=np.float32)
    row = row_not_finite(converted)
    if row is not None:
        raise InputError(f"{name}, row {row}: has a value that is too large for float32")
    return converted
