"""Suggestions as a field of a FiftyOne dataset, and the answers that people give there.

Samples are the items whose image they show. In the app, labels are selected and tagged: "yes" or
"no" is an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.reviewing.reviewed_labels import apply_answers
from plusone.suggestions.folder import Suggestions, read_suggestions
from plusone.suggestions.outputs import by_item

FIELD = "suggestions"
YES, NO = "yes", "no"  # tags


def add_suggestions(dataset: Any, folder: str | Path, field: str = FIELD) -> int:
    """Adds the suggestions of a folder to the samples of a dataset; returns how many there are.

    Args:
        dataset: A FiftyOne dataset or view; samples of other images stay as they are.
        folder: What `plusone suggest` wrote.
        field: The field of the samples, a `Classifications` with the probability as confidence.
    """
    fo = import_module("fiftyone")
    suggestions = read_suggestions(Path(folder))
    samples = _samples(dataset, suggestions)
    classes, added = suggestions.table.classes, 0
    values: dict[str, Any] = {}
    for row, part in by_item(suggestions):
        if row in samples:
            values[samples[row]] = fo.Classifications(
                classifications=[
                    fo.Classification(label=classes[label], confidence=float(p))
                    for label, p in zip(
                        suggestions.label[part], suggestions.probability[part], strict=True
                    )
                ]
            )
            added += part.stop - part.start
    if not values:
        raise InputError(f"{folder}: no sample of the dataset shows an image with a suggestion")
    dataset.set_values(field, values, key_field="id")
    return added


def read_answers(dataset: Any, folder: str | Path, field: str = FIELD) -> LabelTable:
    """The seen labels of a folder of suggestions, and the answers given in FiftyOne.

    Write it with `plusone.data.formats.write`, for `plusone train`.

    Args:
        dataset: The FiftyOne dataset or view.
        folder: What `plusone suggest` wrote.
        field: The field with the suggestions; labels in it that are tagged "yes" or "no" are
            answers, those with both tags are refused.
    """
    suggestions = read_suggestions(Path(folder))
    table, rows = suggestions.table, _samples(dataset, suggestions)
    columns = {name: label for label, name in enumerate(table.classes)}
    names: Sequence[Any] = dataset.values(f"{field}.classifications.label")
    tags: Sequence[Any] = dataset.values(f"{field}.classifications.tags")
    labels_of = dict(zip(dataset.values("id"), zip(names, tags, strict=True), strict=True))
    answers: list[tuple[int, int, bool]] = []
    for row, sample in rows.items():
        given, tagged = labels_of[sample]
        for name, own in zip(given or (), tagged or (), strict=True):
            decided = {YES, NO} & {*(own or ())}
            if len(decided) > 1:
                raise InputError(f"{table.ids[row]}: {name} is tagged both {YES} and {NO}")
            if decided and name in columns:
                answers.append((row, columns[name], YES in decided))
    row_of, label_of, yes = np.array(answers, dtype=np.int64).reshape(-1, 3).T
    return apply_answers(table, row_of, label_of, yes.astype(bool))


def _samples(dataset: Any, suggestions: Suggestions) -> dict[int, str]:
    """The id of the sample that shows the image of each row; rows without one are left out."""
    table = suggestions.table
    if table.root is None:
        raise InputError("FiftyOne shows images, and these suggestions are about items without")
    ids = dict(zip(dataset.values("filepath"), dataset.values("id"), strict=True))
    samples = {Path(path).resolve(): name for path, name in ids.items()}
    paths = ((row, table.path(row).resolve()) for row in range(len(table)))
    return {row: samples[path] for row, path in paths if path in samples}
