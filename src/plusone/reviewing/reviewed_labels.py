"""From answers to labels: a yes becomes a seen positive, a no a seen negative."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable

if TYPE_CHECKING:
    from plusone.reviewing.desk import Desk


def apply_answers(
    table: LabelTable, rows: npt.ArrayLike, labels: npt.ArrayLike, yes: npt.ArrayLike
) -> LabelTable:
    """The table with the answers as seen labels.

    An answer replaces an earlier seen label; of several answers about one label the last counts.
    The truth, if there is one, is not changed. What was named before stays so, unless an answer
    says that it is wrong. `observation` holds the number of answers. Where classes have a
    hierarchy, an answer is one about parents or children, too.

    Args:
        table: The items and their seen labels.
        rows: Item of each answer, `[n]`.
        labels: Its class, `[n]`.
        yes: Whether the item has the label, `[n]`.

    >>> seen = LabelTable(np.array(["a"]), ("x", "y"), LabelMatrix.from_dense([[1, 0]]))
    >>> apply_answers(seen, [0], [1], [False]).labels.dense().tolist()
    [[1, -1]]
    """
    before, hierarchy = table.labels, table.hierarchy
    n_classes = before.n_classes
    row, label = np.asarray(rows, dtype=np.int64), np.asarray(labels, dtype=np.int64)
    inside = (row >= 0) & (row < len(table)) & (label >= 0) & (label < n_classes)
    if not inside.all():
        raise ValueError(f"an answer is outside the table of {len(table)} x {n_classes} labels")
    answer, number = np.asarray(yes, dtype=bool), len(np.unique(row * n_classes + label))
    if hierarchy is not None:
        row, label, answer = hierarchy.spread(row, label, answer)
    key, last = np.unique((row * n_classes + label)[::-1], return_index=True)
    value = np.where(answer[::-1][last], 1, -1).astype(np.int8)
    old = before.row_of_entry() * n_classes + before.indices
    unchanged = ~np.isin(old, key)
    stored = value != before.default
    every = np.concatenate([old[unchanged], key[stored]])
    values = np.concatenate([before.values[unchanged], value[stored]])
    new_rows, new_labels = np.divmod(every, max(1, n_classes))
    matrix = LabelMatrix.from_entries(
        new_rows, new_labels, values, before.shape, default=before.default
    )
    earlier = table.observation.get("answers")
    count = number + (earlier if isinstance(earlier, int) else 0)
    observation = {"scheme": "given"} | dict(table.observation)
    observation |= {"digest": matrix.digest(), "answers": count}
    named = (table.named or before).only_positives()
    kept = ~np.isin(named.row_of_entry() * n_classes + named.indices, key[value == -1])
    named = LabelMatrix.from_entries(
        named.row_of_entry()[kept], named.indices[kept], 1, before.shape
    )
    return replace(table, labels=matrix, observation=observation, named=named)


@dataclass(frozen=True)
class Reviewed:
    """The result of a review.

    Args:
        wrong: Number of answers that replace a seen label by its opposite.
        left_out: Number of answers about items or classes that the table does not have.
    """

    table: LabelTable
    yes: int
    no: int
    wrong: int
    left_out: int


def reviewed_table(desk: Desk) -> Reviewed:
    """The label table of a review: the labels seen before, and all current answers."""
    table = desk.table
    rows = {name: row for row, name in enumerate(table.ids.tolist())}
    labels = {name: label for label, name in enumerate(table.classes)}
    entries: list[tuple[int, int, bool]] = []
    left_out = 0
    for (item, name), verdict in desk.verdicts().items():
        if verdict.answer not in ("yes", "no"):
            continue
        if item in rows and name in labels:
            entries.append((rows[item], labels[name], verdict.answer == "yes"))
        else:
            left_out += 1
    row, label, yes = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    positives = int(yes.sum())
    answered = apply_answers(table, row, label, yes.astype(bool))
    if run := getattr(desk, "run", ""):
        answered = replace(answered, observation=dict(answered.observation) | {"run": run})
    return Reviewed(
        table=answered,
        yes=positives,
        no=len(yes) - positives,
        wrong=desk.progress().get("wrong", 0),
        left_out=left_out,
    )


def class_counts(desk: Desk) -> list[dict[str, Any]]:
    """Number of answers of each kind for each class that has any."""
    counts: dict[str, dict[str, int]] = {}
    for (_, name), verdict in desk.verdicts().items():
        if verdict.answer is not None and name:
            counts.setdefault(name, {"yes": 0, "no": 0, "skip": 0})[verdict.answer] += 1
    return [{"class": name, **counts[name]} for name in desk.table.classes if name in counts]
