"""From folders to a review, and from a review to a label table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data.source import EMBEDDED
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.review.answers import apply_answers
from plusone.review.desk import Desk, NewItemDesk, SuggestionDesk
from plusone.review.new_items import NewItems, read_unlabelled
from plusone.review.pictures import Scenes
from plusone.review.queue import order_questions
from plusone.review.store import Store
from plusone.review.suggested import Suggested
from plusone.suggest import read_suggestions

DATABASE = "review.sqlite"


def open_suggestions(
    folder: Path,
    *,
    order: str = "item",
    budget: int | None = None,
    seed: int = 0,
    database: Path | None = None,
) -> SuggestionDesk:
    """A review of a folder of suggestions.

    Args:
        folder: What `plusone suggest` wrote.
        order: A name in `ORDERS`.
        budget: How many questions to ask; None for all.
        seed: Of the order `random`.
        database: File of the answers; `review.sqlite` in the folder by default.
    """
    found = read_suggestions(folder)
    queue = order_questions(found, order, budget, seed)
    embedded = found.table.root is None and found.about.get("data") in EMBEDDED
    pictures = Scenes(found.table.ids.tolist()) if embedded else None
    with _opened(database or folder / DATABASE) as store:
        return SuggestionDesk(Suggested(found, queue), store, pictures)


def open_new_items(
    data: Path, classes: Path | None = None, *, seed: int = 0, database: Path | None = None
) -> NewItemDesk:
    """A review that labels new items by yes/no questions.

    Args:
        data: The items, as `read_unlabelled` takes them.
        classes: A file with one class name a line.
        seed: Of the orders in which classes are asked about.
        database: File of the answers; `review.sqlite` in or beside the data by default.
    """
    table = read_unlabelled(data, classes)
    if not len(table):
        raise InputError(f"{data}: has no items")
    place = data if data.is_dir() else data.parent
    with _opened(database or place / DATABASE) as store:
        return NewItemDesk(NewItems(table, seed), store)


@contextmanager
def _opened(path: Path) -> Iterator[Store]:
    """The file of answers; closed again if the review cannot begin."""
    store = Store(path)
    try:
        yield store
    except BaseException:
        store.close()
        raise


@dataclass(frozen=True)
class Reviewed:
    """A table with the answers in it.

    Args:
        table: The items with positives and negatives.
        yes: How many answers became positives.
        no: How many became negatives.
        left_out: Answers about items or classes that the table does not have.
    """

    table: LabelTable
    yes: int
    no: int
    left_out: int


def reviewed_table(desk: Desk) -> Reviewed:
    """The labels of a review: what was seen before, and every answer that holds now."""
    table = desk.table
    rows = {name: row for row, name in enumerate(table.ids.tolist())}
    labels = {name: label for label, name in enumerate(table.classes)}
    entries: list[tuple[int, int, bool]] = []
    left_out = 0
    for (item, name), one in desk.verdicts().items():
        if one.answer not in ("yes", "no"):
            continue
        if item in rows and name in labels:
            entries.append((rows[item], labels[name], one.answer == "yes"))
        else:
            left_out += 1
    row, label, yes = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    said = int(yes.sum())
    return Reviewed(
        apply_answers(table, row, label, yes.astype(bool)), said, len(yes) - said, left_out
    )


def class_counts(desk: Desk) -> list[dict[str, Any]]:
    """How each class was answered, classes without an answer left out."""
    found: dict[str, dict[str, int]] = {}
    for (_, name), one in desk.verdicts().items():
        if one.answer is not None and name:
            counts = found.setdefault(name, {"yes": 0, "no": 0, "skip": 0})
            counts[one.answer] += 1
    return [{"class": name, **found[name]} for name in desk.table.classes if name in found]
