"""One review: the questions, the history, the images, and what the page may do with them.

Every method may be called from any thread. Items and classes are numbers here; names go out to be
shown and never come back in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import RLock
from typing import Any

from plusone.data.table import LabelTable
from plusone.review.ledger import Ledger, Verdict
from plusone.review.pictures import Pictures
from plusone.review.store import Answer, Pair, Store

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
