"""One review: the questions, the history, the images, and what the page may do with them.

Every method may be called from any thread. Items and classes are numbers here; names go out to be
shown and never come back in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Set
from threading import RLock
from typing import Any

from plusone.data.table import LabelTable
from plusone.review.ledger import Ledger, Verdict
from plusone.review.new_items import WHOLE, NewItems
from plusone.review.pictures import Pictures
from plusone.review.store import Answer, Pair, Store
from plusone.review.suggested import ANSWERS, Places, Suggested

ITEM = -1  # in place of a class number: the item itself


class UnknownQuestionError(LookupError):
    """An answer to something that is not asked here."""


class Desk(ABC):
    """What both kinds of review share.

    Args:
        table: The items.
        store: The history of answers.
        pictures: Their images; the files below the table's root by default.
    """

    mode: str

    def __init__(self, table: LabelTable, store: Store, pictures: Pictures | None = None) -> None:
        self.table = table
        self.store = store
        self.pictures = pictures or Pictures(table.root, table.ids.tolist())
        self.ledger = Ledger()
        self._lock = RLock()

    def answer(self, session: str, step: str, answers: Sequence[tuple[int, int, str]]) -> None:
        """Keeps a step: (item, class, yes/no/skip) each. When this returns it is on the disk."""
        named = [Answer(*self._names(row, label), action) for row, label, action in answers]
        with self._lock:
            self.store.append(session, step, named)

    def undo(self, session: str, step: str) -> list[dict[str, Any]]:
        """Takes the last step of a session back; returns what it had said."""
        with self._lock:
            taken = self.store.undo(session, step)
            numbers = [(self._numbers(one.item, one.label), one.action) for one in taken]
        return [
            {"row": pair[0], "label": pair[1], "action": action}
            for pair, action in numbers
            if pair is not None
        ]

    def hold(self, session: str) -> None:
        """Keeps the questions of a screen from others for another while."""
        with self._lock:
            self.store.hold(session)

    def release(self, session: str) -> None:
        """Gives the questions of a closed screen to others."""
        with self._lock:
            self.store.release(session)

    def progress(self) -> dict[str, Any]:
        """How far the review is; `last` is the newest row of the history."""
        with self._lock:
            self._sync()
            repeats = {"repeated": self.ledger.repeated, "agreeing": self.ledger.agreeing}
            return self._progress() | repeats | {"last": self.ledger.last}

    def verdicts(self) -> dict[Pair, Verdict]:
        """What holds now about everything that was ever answered."""
        with self._lock:
            self._sync()
            return dict(self.ledger.verdicts)

    def _sync(self) -> None:
        changed = self.ledger.add(self.store.since(self.ledger.last))
        if changed:
            self._update(changed)

    def _item(self, row: int) -> dict[str, Any]:
        own, classes = self.table.labels, self.table.classes
        entries = slice(own.indptr[row], own.indptr[row + 1])
        seen = list(zip(own.indices[entries].tolist(), own.values[entries].tolist(), strict=True))
        return {
            "row": row,
            "name": str(self.table.ids[row]),
            "image": bool(self.pictures),
            "seen": [classes[label] for label, value in seen if value == 1],
            "negative": [classes[label] for label, value in seen if value == -1],
        }

    @abstractmethod
    def _update(self, changed: dict[Pair, Verdict]) -> None: ...

    @abstractmethod
    def _progress(self) -> dict[str, Any]: ...

    @abstractmethod
    def _names(self, row: int, label: int) -> Pair: ...

    @abstractmethod
    def _numbers(self, item: str, name: str) -> tuple[int, int] | None: ...


class NewItemDesk(Desk):
    """Labelling new items by yes/no questions."""

    mode = "annotate"

    def __init__(self, items: NewItems, store: Store) -> None:
        super().__init__(items.table, store)
        self.items = items
        self._sync()

    def next_question(self, session: str, again: int = 0, row: int | None = None) -> dict[str, Any]:
        """The item and the class to ask about; `row` is None if there is none."""
        if row is not None and row >= len(self.table):
            raise UnknownQuestionError
        chosen: list[tuple[int, int] | None] = []

        def take(busy: frozenset[Pair]) -> list[Pair]:
            self._sync()
            chosen.append(self.items.next(busy, again, row))
            return [] if chosen[0] is None else [(self.items.ids[chosen[0][0]], WHOLE)]

        with self._lock:
            self.store.lease(session, take)
            progress = self.progress()
            if chosen[0] is None:
                return {"row": None, "progress": progress}
            item, label = chosen[0]
            return self._item(item) | {
                "label": label,
                "class": self.table.classes[label],
                "number": self.items.number(item) + 1,
                "classes": len(self.table.classes),
                "progress": progress,
            }

    def _update(self, changed: dict[Pair, Verdict]) -> None:
        self.items.update(changed)

    def _progress(self) -> dict[str, Any]:
        return self.items.progress()

    def _names(self, row: int, label: int) -> Pair:
        if row >= len(self.table) or label >= len(self.table.classes):
            raise UnknownQuestionError
        return self.items.ids[row], WHOLE if label == ITEM else self.table.classes[label]

    def _numbers(self, item: str, name: str) -> tuple[int, int] | None:
        label = ITEM if name == WHOLE else self.items.labels.get(name)
        row = self.items.rows.get(item)
        return None if row is None or label is None else (row, label)


class SuggestionDesk(Desk):
    """A review of suggestions, item by item or class by class."""

    mode = "items"

    def __init__(
        self, questions: Suggested, store: Store, pictures: Pictures | None = None
    ) -> None:
        super().__init__(questions.found.table, store, pictures)
        self.questions = questions
        self._places = {
            (row, label): place
            for place, (row, label) in enumerate(
                zip(questions.found.row.tolist(), questions.found.label.tolist(), strict=True)
            )
        }
        self._sync()

    def next_item(self, session: str, again: int = 0, row: int | None = None) -> dict[str, Any]:
        """The item that comes next, with all its questions; `row` is None if there is none."""
        if row is not None and row >= len(self.table):
            raise UnknownQuestionError
        with self._lock:
            places = self._lease(session, lambda busy: self.questions.next_item(busy, again, row))
            progress = self.progress()
            if not len(places):
                return {"row": None, "progress": progress}
            found, place = self.questions.found, set(places.tolist())
            item = int(found.row[places[0]])
            return self._item(item) | {
                "questions": [
                    self._question(one) | {"open": one in place}
                    for one in self.questions.of_item(item).tolist()
                ],
                "after": self.questions.after(item, again),
                "progress": progress,
            }

    def next_page(self, session: str, label: int, again: int, size: int) -> dict[str, Any]:
        """The next items that may have a class; no tiles if there are none."""
        if label >= len(self.table.classes):
            raise UnknownQuestionError
        with self._lock:
            places = self._lease(
                session, lambda busy: self.questions.next_page(label, busy, again, size)
            )
            return {
                "label": label,
                "name": self.table.classes[label],
                "tiles": [
                    self._item(int(self.questions.found.row[one])) | self._question(one)
                    for one in places.tolist()
                ],
                "classes": self.questions.classes(),
                "progress": self.progress(),
            }

    def classes(self) -> list[dict[str, Any]]:
        """The classes that are asked about, with what is left of each."""
        with self._lock:
            self._sync()
            return self.questions.classes()

    def _lease(self, session: str, choose: Callable[[Set[Pair]], Places]) -> Places:
        chosen: list[Places] = []

        def take(busy: frozenset[Pair]) -> list[Pair]:
            self._sync()
            chosen.append(choose(busy))
            return [self.questions.pairs[place] for place in chosen[0].tolist()]

        self.store.lease(session, take)
        return chosen[0]

    def _question(self, place: int) -> dict[str, Any]:
        found = self.questions.found
        label = int(found.label[place])
        return {
            "label": label,
            "class": self.table.classes[label],
            "probability": round(float(found.probability[place]), 6),
            "answer": ANSWERS[int(self.questions.state[place])],
        }

    def _update(self, changed: dict[Pair, Verdict]) -> None:
        self.questions.update(changed)

    def _progress(self) -> dict[str, Any]:
        return self.questions.progress()

    def _names(self, row: int, label: int) -> Pair:
        place = self._places.get((row, label))
        if place is None:
            raise UnknownQuestionError
        return self.questions.pairs[place]

    def _numbers(self, item: str, name: str) -> tuple[int, int] | None:
        place = self.questions.place.get((item, name))
        if place is None:
            return None
        return int(self.questions.found.row[place]), int(self.questions.found.label[place])
