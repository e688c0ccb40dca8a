"""The desk for suggestions: item by item, or one class at a time."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from plusone.review.desk import Desk, UnknownQuestionError
from plusone.review.ledger import Verdict
from plusone.review.pictures import Pictures
from plusone.review.progress import ANSWERS
from plusone.review.store import Pair, Store
from plusone.review.suggested import Places, Suggested


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
