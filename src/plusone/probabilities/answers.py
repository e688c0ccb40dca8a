"""Answers of an audit or a review: known labels that calibration can learn from.

Who names a label picks it among the labels of the item; who answers a question says whether the
item has that label, whatever else it has. Both make seen positives, but only the first are picks.
Where a table says which were named (`LabelTable.named`), its other seen positives are marked with
`ANSWERED`, and its seen negatives count as answers too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from plusone.data.groups import group_numbers
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError

ANSWERED = 2  # a seen positive that was answered, not named
FEWEST = 20  # answers that tell something
LEAST_WEIGHT = 1e-3  # of an item that was sure to be drawn; 1 on average


def mark_answers(observed: LabelMatrix, named: LabelMatrix | None) -> npt.NDArray[np.int8]:
    """Labels `[N, L]` in {1, 0, -1}, and `ANSWERED` for seen positives that were not named.

    >>> seen = LabelMatrix.from_dense([[1, 1, -1]])
    >>> mark_answers(seen, LabelMatrix.from_dense([[1, 0, 0]])).tolist()
    [[1, 2, -1]]
    """
    return marked_labels(observed, named).dense()


def marked_labels(observed: LabelMatrix, named: LabelMatrix | None) -> LabelMatrix:
    """The same without a table."""
    if named is None:
        return observed
    row, values = observed.row_of_entry(), observed.values.copy()
    own = row * observed.n_classes + observed.indices
    picked = named.row_of_entry() * named.n_classes + named.indices
    picked = picked[named.values == 1]
    values[(values == 1) & np.isin(own, picked, invert=True)] = ANSWERED
    return LabelMatrix.from_entries(
        row, observed.indices, values, observed.shape, default=observed.default
    )


def without_answers(marked: LabelMatrix) -> LabelMatrix:
    """Labels as they were before the answers, which `are_answers` tells; `marked` if none is."""
    if not (marked.values == ANSWERED).any():
        return marked
    return marked.with_default(0).only_positives()


def are_answers(marked: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Which labels are answers, bool `[N, L]`; none where no positive is one."""
    some = bool((marked == ANSWERED).any())
    return np.asarray(((marked == ANSWERED) | (marked == -1)) & some)


@dataclass(frozen=True)
class Answers:
    """Known labels of some items, one entry each.

    Args:
        row: Item, int64 `[m]`.
        label: Class, int64 `[m]`.
        yes: Whether the item has it, bool `[m]`.
        complete: Items all of whose labels are known, int64; those of an audit, drawn at random.
        group: Number of the item's group, int64 `[m]`; None if items belong to no groups.
        weight: One over the chance that the item was drawn for the audit, 1 on average, `[m]`; None
            if all items had the same.
    """

    row: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    yes: npt.NDArray[np.bool_]
    complete: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64] | None = None
    weight: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.row)

    @property
    def items(self) -> int:
        """Number of distinct items."""
        return len(np.unique(self.row))

    @property
    def n_groups(self) -> int | None:
        """Number of distinct groups; None if items belong to no groups."""
        return None if self.group is None else len(np.unique(self.group))

    @property
    def unit(self) -> npt.NDArray[np.int64]:
        """What each answer tells about, `[m]`: its group, or its item if there are no groups.

        Answers about one unit may be right or wrong together; those about different ones are
        independent.
        """
        return self.row if self.group is None else self.group

    def about_others(self, n_items: int) -> npt.NDArray[np.float64] | None:
        """For how many items that were not drawn the item of each answer stands, relative, `[m]`.

        An item that was drawn with the chance c stands for 1 / c items, itself among them. Where it
        was sure to be drawn it says nothing about the others. None if all were drawn evenly.

        Args:
            n_items: How many items there are.
        """
        if self.weight is None:
            return None
        return np.maximum(self.weight - len(self.complete) / n_items, LEAST_WEIGHT)

    def weighted(self, ids: npt.NDArray[np.str_], drawn: Mapping[str, float]) -> Answers:
        """The same answers, if items were not drawn evenly; items outside `drawn` were chosen.

        Args:
            ids: Names of the items, `[n]`.
            drawn: Weights of the items that were drawn.
        """
        names = ids.tolist()
        complete = np.array(
            [row for row in self.complete.tolist() if names[row] in drawn], dtype=np.int64
        )
        weight = np.array([drawn.get(names[row], 1.0) for row in self.row.tolist()])
        return replace(self, complete=complete, weight=weight)


def answers_in(marked: LabelMatrix, groups: npt.NDArray[np.int64] | None = None) -> Answers | None:
    """The answers among labels; None if they are too few to tell.

    Args:
        marked: What `marked_labels` gives, `[N, L]`.
        groups: Number of each item's group, `[N]`.
    """
    if not (marked.values == ANSWERED).any():
        return None
    marked = marked.with_default(0)
    asked = (marked.values == ANSWERED) | (marked.values == -1)
    row, label = marked.row_of_entry()[asked], marked.indices[asked]
    if len(row) < FEWEST:
        return None
    return Answers(
        row.astype(np.int64),
        label.astype(np.int64),
        marked.values[asked] == ANSWERED,
        np.zeros(0, dtype=np.int64),  # they were chosen, not drawn
        None if groups is None else groups[row],
    )


def answers_from(audit: LabelTable, table: LabelTable, *, seed: int = 0) -> Answers:
    """Answers of an audit about labels of a table, except the seen labels of each item.

    An audit without any negative is treated as complete: all labels of a few items. Otherwise only
    its 1 and -1 are answers, as in a table that `plusone review` exports.

    A run may have been trained with the answers: then all answers about an item are seen, and one
    of its seen positives was seen first and is not an answer. Where the table does not say which
    was named, one is drawn.

    Args:
        audit: The audited items; their names and classes must occur in `table`.
        table: The cross-fitted items and their seen labels.
        seed: Seed of the draw.
    """
    rows, columns = _places(audit, table)
    if len(audit) == len(table) and not _has_negatives(audit.labels):
        raise InputError(
            "the audit has every item and no negative label; give all labels of a few items, or a "
            "table with the rejected labels too"
        )
    known = np.zeros((len(audit), len(table.classes)), dtype=np.int8)
    if not _has_negatives(audit.labels):
        known[:] = -1  # of a class that the file does not name, too
    known[:, columns] = _complete(audit.labels).dense()
    states = table.labels.dense(rows)
    seen, new = states == 1, (known != 0) & (states == 0)
    order = np.random.default_rng(seed).random(seen.shape)
    order += 0 if table.named is None else table.named.dense(rows)
    first_seen = np.where(seen, order + 1, 0.0).argmax(axis=1)
    trained = ~new.any(axis=1)  # the run has seen the answers about these items
    answered = np.where(trained[:, None], known != 0, new)
    first = np.flatnonzero(trained & seen.any(axis=1))
    answered[first, first_seen[first]] = False
    at, label = np.nonzero(answered)
    if not len(at):
        raise InputError("the audit has no labels other than those already seen")
    complete = np.flatnonzero((known != 0).all(axis=1))
    return Answers(
        row=rows[at],
        label=label,
        yes=known[at, label] == 1,
        complete=rows[complete],
        group=None if table.groups is None else group_numbers(table.groups)[rows[at]],
    )


def _has_negatives(labels: LabelMatrix) -> bool:
    return labels.default == -1 or bool((labels.values == -1).any())


def _complete(labels: LabelMatrix) -> LabelMatrix:
    return labels if _has_negatives(labels) else labels.only_positives(default=-1)


def _places(
    audit: LabelTable, table: LabelTable
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns of the table for the rows and columns of the audit."""
    rows = {name: row for row, name in enumerate(table.ids.tolist())}
    columns = {name: column for column, name in enumerate(table.classes)}
    for what, names, places in (
        ("item", audit.ids.tolist(), rows),
        ("class", list(audit.classes), columns),
    ):
        unknown = [name for name in names if name not in places]
        if unknown:
            more = f" and {len(unknown) - 1} more" if unknown[1:] else ""
            raise InputError(
                f"the audit has the {what} {unknown[0]!r}{more}, which is not among the "
                f"{len(places)} that suggestions are made for; remove it from the audit"
            )
    return (
        np.array([rows[name] for name in audit.ids.tolist()], dtype=np.int64),
        np.array([columns[name] for name in audit.classes], dtype=np.int64),
    )
