"""A review: its questions, history and images, and the operations of the page on them.

Every method may be called from any thread. The page refers to items and classes by number; names
are sent to be shown and never accepted back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from threading import RLock
from typing import Any

from plusone.data.table import LabelTable
from plusone.reviewing.outlines import Outlines
from plusone.reviewing.pictures import Pictures
from plusone.reviewing.questions import ANSWERS, WHOLE, NewItems, Places, Selection, Suggested
from plusone.reviewing.store import Answer, Ledger, Pair, Store, Verdict

ITEM = -1  # class number that stands for the item itself
LONGEST = 20_000  # characters of a text that are shown
FOUND = 50  # texts that a search names
AROUND = 60  # characters that it shows before and after the first word


class UnknownQuestionError(LookupError):
    """An answer to a question that this review does not have."""


class Desk(ABC):
    """Base of both kinds of review."""

    mode: str

    def __init__(self, table: LabelTable, store: Store, pictures: Pictures | None = None) -> None:
        self.table = table
        self.store = store
        self.pictures = pictures or Pictures(table.root, table.ids.tolist())
        self.ledger = Ledger()
        self._lock = RLock()

    def answer(self, session: str, step: str, answers: Sequence[tuple[int, int, str]]) -> None:
        """Saves a step of (item, class, yes/no/skip) answers; it is on disk on return."""
        named = [Answer(*self._names(row, label), action) for row, label, action in answers]
        with self._lock:
            self.store.append(session, step, named)

    def undo(self, session: str, step: str) -> list[dict[str, Any]]:
        """Reverts the last step of a session; returns its answers."""
        with self._lock:
            undone = self.store.undo(session, step)
            numbers = [
                (self._numbers(answer.item, answer.label), answer.action) for answer in undone
            ]
        return [
            {"row": pair[0], "label": pair[1], "action": action, "asked": self._asked(*pair)}
            for pair, action in numbers
            if pair is not None
        ]

    def hold(self, session: str) -> None:
        """Renews the leases of a session."""
        with self._lock:
            self.store.hold(session)

    def release(self, session: str) -> None:
        """Ends the leases of a session."""
        with self._lock:
            self.store.release(session)

    def progress(self) -> dict[str, Any]:
        """Progress of the review; `last` is the number of the newest row of the history."""
        with self._lock:
            self._sync()
            repeats = {"repeated": self.ledger.repeated, "agreeing": self.ledger.agreeing}
            return self._progress() | repeats | {"last": self.ledger.last}

    def search(self, words: str) -> dict[str, Any]:
        """The texts that have all of some words, whatever their case: the first, and how many."""
        wanted = words.casefold().split()
        texts = self.table.texts or ()
        rows = [
            row for row, text in enumerate(texts) if all(word in text.casefold() for word in wanted)
        ]
        found = [
            {"row": row, "name": str(self.table.ids[row]), "text": _excerpt(texts[row], wanted[0])}
            for row in rows[:FOUND]
        ]
        return {"count": len(rows), "found": found}

    def verdicts(self) -> dict[Pair, Verdict]:
        """The current answers to all questions that were ever answered."""
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
        seen = zip(own.indices[entries].tolist(), own.values[entries].tolist(), strict=True)
        return {
            "row": row,
            "name": str(self.table.ids[row]),
            "image": bool(self.pictures),
            "text": None if self.table.texts is None else self.table.texts[row][:LONGEST],
            "labels": [
                {"label": label, "class": classes[label], "seen": value, "has": value == 1}
                for label, value in sorted(seen, key=lambda one: (-one[1], one[0]))
            ],
        }

    def _asked(self, row: int, label: int) -> bool:
        """Whether the review has this question; otherwise it was answered without being asked."""
        return True

    @abstractmethod
    def _update(self, changed: dict[Pair, Verdict]) -> None: ...

    @abstractmethod
    def _progress(self) -> dict[str, Any]: ...

    @abstractmethod
    def _names(self, row: int, label: int) -> Pair: ...

    @abstractmethod
    def _numbers(self, item: str, name: str) -> tuple[int, int] | None: ...


def _excerpt(text: str, word: str) -> str:
    """The part of a text around the first place of a word."""
    place = max(text.casefold().find(word), 0)
    start, end = max(place - AROUND, 0), place + len(word) + AROUND
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"


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
    """A review of suggestions, item by item or class by class.

    Besides the questions, any label of any item may be answered: a no to a seen positive says that
    it is wrong, and a yes to a label that was not suggested adds it.
    """

    mode = "items"
    outlines: Outlines | None = None  # where the model finds labels, if its run is known

    @property
    def run(self) -> str:
        """Name of the run folder behind the suggestions; "" if it is not known."""
        return Path(str(self.questions.suggestions.about.get("run", ""))).name

    def __init__(
        self, questions: Suggested, store: Store, pictures: Pictures | None = None
    ) -> None:
        super().__init__(questions.suggestions.table, store, pictures)
        self.questions = questions
        self._rows = {name: row for row, name in enumerate(self.table.ids.tolist())}
        self._labels = {name: label for label, name in enumerate(self.table.classes)}
        self._unasked: dict[int, dict[int, bool]] = {}  # item -> class -> whether it has it
        self._sync()

    def select(self, selection: Selection) -> None:
        """Chooses and orders the questions that are left, on all open pages."""
        with self._lock:
            self._sync()
            self.questions.select(selection)

    def selection(self) -> dict[str, Any]:
        """Which questions are asked, and how many suggestions there are."""
        now = self.questions.selection
        number = len(self.questions.suggestions)
        return {
            "order": now.order, "budget": now.budget, "least": now.least, "suggestions": number
        }  # fmt: skip

    def next_item(self, session: str, again: int = 0, row: int | None = None) -> dict[str, Any]:
        """The next or the given item with all its questions; `row` is None if none is left."""
        if row is not None and row >= len(self.table):
            raise UnknownQuestionError
        with self._lock:
            places = self._lease(session, lambda busy: self.questions.next_item(busy, again, row))
            progress = self.progress()
            if row is None and not len(places):
                return {"row": None, "progress": progress}
            open_places = set(places.tolist())
            item = int(self.questions.suggestions.row[places[0]]) if row is None else row
            return self._item(item) | {
                "questions": [
                    self._question(place) | {"open": place in open_places}
                    for place in self.questions.of_item(item).tolist()
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
                    self._item(int(self.questions.suggestions.row[place])) | self._question(place)
                    for place in places.tolist()
                ],
                "classes": self.questions.classes(),
                "progress": self.progress(),
            }

    def classes(self) -> list[dict[str, Any]]:
        """The classes that are asked about, with the questions left of each."""
        with self._lock:
            self._sync()
            return self.questions.classes()

    def parts_of(self, row: int) -> dict[int, tuple[float, float, float, float]]:
        """Where in its picture the labels asked about an item are found, by class number."""
        path = self.pictures.path(row)
        if self.outlines is None or path is None:
            return {}
        labels = self.questions.suggestions.label[self.questions.of_item(row)].tolist()
        boxes = self.outlines.of(path, [self.table.classes[label] for label in labels])
        return {self._labels[name]: box for name, box in boxes.items()}

    def _lease(self, session: str, choose: Callable[[Set[Pair]], Places]) -> Places:
        chosen: list[Places] = []

        def take(busy: frozenset[Pair]) -> list[Pair]:
            self._sync()
            chosen.append(choose(busy))
            return [self.questions.pairs[place] for place in chosen[0].tolist()]

        self.store.lease(session, take)
        return chosen[0]

    def _question(self, place: int) -> dict[str, Any]:
        suggestions = self.questions.suggestions
        label, seen = int(suggestions.label[place]), bool(self.questions.seen[place])
        likely = round(float(self.questions.probability[place]), 6)
        return {
            "label": label,
            "class": self.table.classes[label],
            "probability": None if seen else likely,
            "answer": ANSWERS[int(self.questions.state[place])],
            "seen": seen,
        }

    def _item(self, row: int) -> dict[str, Any]:
        item = super()._item(row)
        unasked = self._unasked.get(row, {}) | dict.fromkeys(self.questions.wrong_of(row), False)
        for one in item["labels"]:
            one["has"] = unasked.pop(one["label"], one["has"])
        item["labels"] += [
            {"label": label, "class": self.table.classes[label], "seen": 0, "has": has}
            for label, has in sorted(unasked.items())
        ]
        return item

    def _asked(self, row: int, label: int) -> bool:
        return self._names(row, label) in self.questions.place

    def _update(self, changed: dict[Pair, Verdict]) -> None:
        self.questions.update(changed)
        for pair, now in changed.items():
            numbers = self._numbers(*pair)
            if numbers is None or self._asked(*numbers):
                continue
            row, label = numbers
            own = self._unasked.setdefault(row, {})
            if now.answer in ("yes", "no"):
                own[label] = now.answer == "yes"
            else:
                own.pop(label, None)

    def _progress(self) -> dict[str, Any]:
        rows = {row for row, own in self._unasked.items() if own} | self.questions.wrong_items()
        labels = [one for row in rows for one in self._item(row)["labels"]]
        return self.questions.progress() | {
            "wrong": sum(one["seen"] == (-1 if one["has"] else 1) for one in labels),
            "added": sum(one["seen"] == 0 and one["has"] for one in labels),
        }

    def _names(self, row: int, label: int) -> Pair:
        if row >= len(self.table) or not 0 <= label < len(self.table.classes):
            raise UnknownQuestionError
        return str(self.table.ids[row]), self.table.classes[label]

    def _numbers(self, item: str, name: str) -> tuple[int, int] | None:
        row, label = self._rows.get(item), self._labels.get(name)
        return None if row is None or label is None else (row, label)
