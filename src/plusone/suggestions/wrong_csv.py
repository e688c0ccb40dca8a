"""`wrong.csv` in a folder of suggestions: seen labels that are probably wrong, in this order.

| column | content |
| --- | --- |
| `image` | the item |
| `label` | its seen label |
| `score` | from 0 to 1, the higher the more probably it is wrong; not a probability |
| `instead` | the labels that fit better, the best first: `dog, cat` |
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems
from plusone.io.files import write_text
from plusone.io.readers import LARGE_FILE, read_text
from plusone.suggestions.folder import Suggestions

if TYPE_CHECKING:
    from plusone.probabilities.wrong import WrongLabels

FILE = "wrong.csv"
COLUMNS = ("image", "label", "score", "instead")
WORTH_NAMING = 0.1  # least fit of an alternative
UNLIMITED = 0.2  # share of the labels that is listed where no upper limit is known


def write_wrong(wrong: WrongLabels, table: LabelTable, folder: Path) -> int:
    """Writes as many labels as may be wrong at most; returns their number.

    Args:
        wrong: The seen labels; its rows are those of the table.
        table: The items.
        folder: The folder of suggestions.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    most = math.ceil(UNLIMITED * len(wrong)) if wrong.most is None else wrong.most
    order = np.argsort(-wrong.score, kind="stable")[:most]
    for place in order.tolist():
        pairs = zip(wrong.instead[place], wrong.fit[place], strict=True)
        instead = [table.classes[one] for one, fit in pairs if fit >= WORTH_NAMING]
        name, label = table.ids[wrong.row[place]], table.classes[wrong.label[place]]
        writer.writerow([name, label, f"{wrong.score[place]:.6f}", ", ".join(instead)])
    write_text(folder / FILE, text.getvalue())
    return len(order)


def with_wrong(suggestions: Suggestions, folder: Path) -> Suggestions:
    """Suggestions together with the labels of `wrong.csv`, if the folder has one, for a review.

    The number of a seen label in the place of a probability is 1 less its score; it only decides
    the order of the questions.
    """
    path = folder / FILE
    if not path.is_file():
        return suggestions
    table, problems = suggestions.table, Problems(str(path))
    rows = {name: row for row, name in enumerate(table.ids.tolist())}
    labels = {name: label for label, name in enumerate(table.classes)}
    try:
        lines = csv.DictReader(io.StringIO(read_text(path, largest=LARGE_FILE), newline=""))
        entries = list(lines)
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    if tuple(lines.fieldnames or ()) != COLUMNS:
        raise InputError(f"{path}: the first line must be {','.join(COLUMNS)}")
    found: list[tuple[int, int, float]] = []
    for number, entry in enumerate(entries, start=2):
        try:
            one = (rows[entry["image"]], labels[entry["label"]], float(entry["score"]))
        except (KeyError, TypeError, ValueError):
            problems.add("is not an item, its label and a number", row=number)
            continue
        if not 0 <= one[2] <= 1 or one[1] not in table.labels.positives(one[0]):
            problems.add("is not a seen label with a score from 0 to 1", row=number)
        found.append(one)
    problems.raise_if_any()
    seen_row, label, wrong = np.array(found, dtype=np.float64).reshape(-1, 3).T
    right = (1 - wrong).astype(np.float32)
    row = np.concatenate([suggestions.row, seen_row.astype(np.int64)])
    probability = np.concatenate([suggestions.probability, right])
    seen = np.arange(len(row)) >= len(suggestions)
    order = np.lexsort((-probability, ~seen, row))  # whether the seen label is right comes first
    return replace(
        suggestions,
        row=row[order],
        label=np.concatenate([suggestions.label, label.astype(np.int32)])[order],
        probability=probability[order],
        score=np.concatenate([suggestions.score, right])[order],
    )
