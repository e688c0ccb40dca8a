"""The desk for new items: one yes/no question after the other."""

from __future__ import annotations

from typing import Any

from plusone.review.desk import ITEM, Desk, UnknownQuestionError
from plusone.review.ledger import Verdict
from plusone.review.new_items import WHOLE, NewItems
from plusone.review.store import Pair, Store


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
