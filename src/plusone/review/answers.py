"""From answers to labels: a yes is a seen positive, a no is a seen negative."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable


def apply_answers(
    table: LabelTable, rows: npt.ArrayLike, labels: npt.ArrayLike, yes: npt.ArrayLike
) -> LabelTable:
    """The table with the answers among its seen labels.

    What was seen of a label before gives way to the answer; of several answers about one label
    the last counts. The truth, where there is one, stays as it is. `observation` says how many
    answers there are.

    Args:
        table: The items and what was seen of them.
        rows: Item of each answer, `[n]`.
        labels: Its class, `[n]`.
        yes: Whether the item has the label, `[n]`.

    >>> seen = LabelTable(np.array(["a"]), ("x", "y"), LabelMatrix.from_dense([[1, 0]]))
    >>> apply_answers(seen, [0], [1], [False]).labels.dense().tolist()
    [[1, -1]]
    """
    before = table.labels
    n_classes = before.n_classes
    row, label = np.asarray(rows, dtype=np.int64), np.asarray(labels, dtype=np.int64)
    inside = (row >= 0) & (row < len(table)) & (label >= 0) & (label < n_classes)
    if not inside.all():
        raise ValueError(f"an answer is about none of the {len(table)} x {n_classes} labels")
    key, last = np.unique((row * n_classes + label)[::-1], return_index=True)
    value = np.where(np.asarray(yes, dtype=bool)[::-1][last], 1, -1).astype(np.int8)
    old = before.row_of_entry() * n_classes + before.indices
    kept = ~np.isin(old, key)
    stored = value != before.default
    every = np.concatenate([old[kept], key[stored]])
    values = np.concatenate([before.values[kept], value[stored]])
    new_rows, new_labels = np.divmod(every, max(1, n_classes))
    matrix = LabelMatrix.from_entries(
        new_rows, new_labels, values, before.shape, default=before.default
    )
    earlier = table.observation.get("answers")
    count = len(key) + (earlier if isinstance(earlier, int) else 0)
    about = {"scheme": "given"} | dict(table.observation)
    about |= {"digest": matrix.digest(), "answers": count}
    return replace(table, labels=matrix, observation=about)
