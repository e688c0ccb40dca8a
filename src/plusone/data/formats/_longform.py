"""The long form, shared by CSV and parquet: lists of class names per item.

Each item has its seen positives, its seen negatives and, optionally, the truth, and which of its
seen positives were named (the others are answers). `*` instead of the
negatives means that every other class is a seen negative; if every row has it, all labels are seen
and are the truth as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from plusone.data.checks import line_of, name_fault
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems

ALL_OTHERS = "*"
MOST_STARRED = 2**26  # stored negatives, unless every row has the star


@dataclass(frozen=True)
class Lists:
    """Class codes of all rows, concatenated, and the number of codes of each row.

    `starred` are the rows that have `*` instead: all other classes.
    """

    codes: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    starred: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def rows(self) -> npt.NDArray[np.int64]:
        """The row of each code."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


class ClassCodes:
    """Codes of class names: from a given list, or in order of appearance."""

    def __init__(self, classes: Sequence[str] | None, problems: Problems) -> None:
        self.known = {name: code for code, name in enumerate(classes or ())}
        self.fixed = classes is not None
        self.problems = problems

    def code(self, name: str, line: int | None) -> int | None:
        """The code of a name; None, with a problem reported, if it cannot be a class."""
        code = self.known.get(name)
        if code is not None:
            return code
        if self.fixed:
            self.problems.add(f"class {name!r} is not in the class list", row=line)
            return None
        if fault := name_fault(name):
            self.problems.add(f"class name {name!r} {fault}", row=line)
            return None
        self.known[name] = len(self.known)
        return self.known[name]

    def in_order(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
        """The class names in their final order, and the final index of each code."""
        names = list(self.known)
        if self.fixed:
            return tuple(names), np.arange(len(names), dtype=np.int32)
        order = sorted(range(len(names)), key=names.__getitem__)
        final = np.empty(len(names), dtype=np.int32)
        final[order] = np.arange(len(names), dtype=np.int32)
        return tuple(names[code] for code in order), final


def assemble(
    codes: ClassCodes, columns: Mapping[str, Lists], lines: Sequence[int] | None
) -> tuple[tuple[str, ...], LabelMatrix, LabelMatrix | None, LabelMatrix | None]:
    """Converts lists to classes, labels, truth and named labels; contradictions are problems.

    The columns are the seen positives (`labels`) and, if the file has them, seen `negatives`, all
    positives (`truth`) and the seen positives that were `named`.
    """
    classes, final = codes.in_order()
    shape = (len(columns["labels"].counts), len(classes))
    keys = {}
    for name, lists in columns.items():
        key = lists.rows() * shape[1] + final[lists.codes]
        keys[name] = np.sort(key)
        repeated = keys[name][1:][keys[name][1:] == keys[name][:-1]]
        _record(repeated, classes, codes.problems, lines, f"occurs twice in {name}")
    if "negatives" in keys:
        both = np.intersect1d(keys["labels"], keys["negatives"])
        _record(both, classes, codes.problems, lines, "is both in labels and in negatives")
    if "truth" in keys:
        fault = "is in labels but not in truth; the truth of a row must hold all its positives"
        _record(np.setdiff1d(keys["labels"], keys["truth"]), classes, codes.problems, lines, fault)
    if "truth" in keys and "negatives" in keys:
        both = np.intersect1d(keys["negatives"], keys["truth"])
        _record(both, classes, codes.problems, lines, "is both in negatives and in truth")
    if "named" in keys:
        other = np.setdiff1d(keys["named"], keys["labels"])
        _record(other, classes, codes.problems, lines, "is in named but not in labels")
    codes.problems.raise_if_any()
    seen = keys["labels"]
    named = _matrix(keys["named"], shape, 1, default=0) if "named" in keys else None
    starred = columns["negatives"].starred if "negatives" in columns else np.zeros(0, np.int64)
    labels = _matrix(seen, shape, 1, default=-1 if len(starred) == shape[0] else 0)
    true = _matrix(keys["truth"], shape, 1, default=-1) if "truth" in keys else None
    if len(starred) == shape[0]:
        return classes, labels, true if true is not None else labels, named
    negative_keys = keys.get("negatives", np.zeros(0, np.int64))
    if len(starred):
        if len(starred) * shape[1] > MOST_STARRED:
            raise InputError(
                f"{codes.problems.source}: '*' in {len(starred):,} rows stands for more than "
                f"{MOST_STARRED:,} labels; write it in all rows or in fewer, or all labels as "
                "1, 0 and -1 in the array y of an npz file"
            )
        every = (starred[:, None] * shape[1] + np.arange(shape[1])).ravel()
        negative_keys = np.concatenate(
            [negative_keys, np.setdiff1d(every, seen, assume_unique=True)]
        )
    if len(negative_keys):
        values = np.repeat(np.array([1, -1], np.int8), [len(seen), len(negative_keys)])
        labels = _matrix(np.concatenate([seen, negative_keys]), shape, values, default=0)
    return classes, labels, true, named


def _matrix(
    keys: npt.NDArray[np.int64],
    shape: tuple[int, int],
    values: int | npt.NDArray[np.int8],
    *,
    default: int,
) -> LabelMatrix:
    rows, columns = np.divmod(keys, max(1, shape[1]))
    return LabelMatrix.from_entries(rows, columns, values, shape, default=default)


def _record(
    keys: npt.NDArray[np.int64],
    classes: tuple[str, ...],
    problems: Problems,
    lines: Sequence[int] | None,
    fault: str,
) -> None:
    for key in np.unique(keys):
        row, column = divmod(int(key), len(classes))
        problems.add(f"class {classes[column]!r} {fault}", row=line_of(lines, row))


@dataclass(frozen=True)
class Columns:
    """The columns of the long form of a table; `starred` if the negatives are `*`."""

    negatives: LabelMatrix | None
    starred: bool
    truth: LabelMatrix | None


def columns_of(table: LabelTable) -> Columns:
    """The columns that the long form of a table needs."""
    truth = table.truth
    if table.is_complete:
        implied = truth is None or truth is table.labels or truth.digest() == table.labels.digest()
        return Columns(None, True, None if implied else truth)
    seen = table.labels.with_default(0)
    keep = seen.values == -1
    negatives = None
    if keep.any():
        negatives = LabelMatrix.from_entries(
            seen.row_of_entry()[keep], seen.indices[keep], 1, seen.shape
        )
    return Columns(negatives, False, truth)
