"""Questions about suggestions: which are open, which come next, item by item or class by class."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.review.ledger import Verdict
from plusone.review.store import Pair
from plusone.suggest.folder import Suggestions

OPEN, YES, NO, SKIPPED = 0, 1, 2, 3
CODES = {None: OPEN, "yes": YES, "no": NO, "skip": SKIPPED}
ANSWERS = {code: answer for answer, code in CODES.items()}

States = npt.NDArray[np.int8]


def counts(states: States) -> dict[str, int]:
    """How many questions are in which state."""
    found = np.bincount(states, minlength=4).tolist()
    return {
        "questions": len(states),
        "answered": found[YES] + found[NO],
        "yes": found[YES],
        "no": found[NO],
        "skipped": found[SKIPPED],
        "left": found[OPEN],
    }


def agreement(states: States, probability: npt.NDArray[np.float32]) -> dict[str, float | None]:
    """What the answers say about the probabilities; None before the first answer.

    | name | meaning |
    | --- | --- |
    | `accepted` | share of answers that are yes |
    | `expected` | the same as the probabilities foretold it: their mean over what was answered |
    | `agreement` | share of answers on the side the probability favours |
    """
    answered = (states == YES) | (states == NO)
    if not answered.any():
        return {"accepted": None, "expected": None, "agreement": None}
    yes, p = states[answered] == YES, probability[answered]
    return {
        "accepted": float(yes.mean()),
        "expected": float(p.mean(dtype=np.float64)),
        "agreement": float((yes == (p >= 0.5)).mean()),
    }


Places = npt.NDArray[np.int64]


class Suggested:
    """The state of every suggestion, and the search for the next ones to ask about.

    Args:
        found: The suggestions.
        queue: Positions of those to ask about, in order (`order_questions`).
    """

    def __init__(self, found: Suggestions, queue: Places) -> None:
        self.found = found
        self.queue = queue
        ids, classes = found.table.ids.tolist(), found.table.classes
        self.pairs: list[Pair] = [
            (ids[row], classes[label])
            for row, label in zip(found.row.tolist(), found.label.tolist(), strict=True)
        ]
        self.place = {pair: place for place, pair in enumerate(self.pairs)}
        self.state = np.zeros(len(found), dtype=np.int8)
        self._decided = np.zeros(len(found), dtype=np.int64)  # number of the row that decided it
        self._queued = np.zeros(len(found), dtype=bool)
        self._queued[queue] = True
        self._starts = np.searchsorted(found.row, np.arange(len(found.table) + 1))

    def update(self, changed: Mapping[Pair, Verdict]) -> None:
        """Takes new verdicts in; those about other suggestions are passed over."""
        for pair, now in changed.items():
            place = self.place.get(pair)
            if place is not None:
                self.state[place] = CODES[now.answer]
                self._decided[place] = now.last

    def of_item(self, row: int) -> Places:
        """The questions about one item."""
        every = np.arange(self._starts[row], self._starts[row + 1])
        chosen: Places = every[self._queued[every]]
        return chosen

    def next_item(self, busy: Set[Pair], again: int, row: int | None = None) -> Places:
        """The open questions of the item that comes next; empty if there is none.

        Args:
            busy: Questions on other screens.
            again: What was skipped up to this row of the history is asked again.
            row: An item to take if it has an open question.
        """
        if row is not None:
            own = self.of_item(row)
            wanted: Places = own[self._askable(own, again, frozenset())]
            if len(wanted):
                return wanted
        first = self.queue[self._askable(self.queue, again, busy)][:1]
        if not len(first):
            return first
        own = self.of_item(int(self.found.row[first[0]]))
        free: Places = own[self._askable(own, again, busy)]
        return free

    def next_page(self, label: int, busy: Set[Pair], again: int, size: int) -> Places:
        """The next open questions about one class."""
        own = self.queue[self.found.label[self.queue] == label]
        free: Places = own[self._askable(own, again, busy)][:size]
        return free

    def after(self, row: int, again: int) -> int | None:
        """The item that probably follows, for fetching its image ahead."""
        askable = self.queue[self._askable(self.queue, again, frozenset())]
        others = askable[self.found.row[askable] != row][:1]
        return int(self.found.row[others[0]]) if len(others) else None

    def classes(self) -> list[dict[str, Any]]:
        """Every class that is asked about: how many questions it has, and how many are left."""
        label = self.found.label[self.queue]
        n = len(self.found.table.classes)
        total = np.bincount(label, minlength=n)
        left = np.bincount(label[self.state[self.queue] == OPEN], minlength=n)
        return [
            {"label": k, "name": name, "questions": int(total[k]), "left": int(left[k])}
            for k, name in enumerate(self.found.table.classes)
            if total[k]
        ]

    def progress(self) -> dict[str, Any]:
        """Counts and agreement over the queue."""
        states = self.state[self.queue]
        return counts(states) | agreement(states, self.found.probability[self.queue])

    def _askable(self, places: Places, again: int, busy: Set[Pair]) -> npt.NDArray[np.bool_]:
        state = self.state[places]
        free: npt.NDArray[np.bool_] = (state == OPEN) | (
            (state == SKIPPED) & (self._decided[places] <= again)
        )
        taken = [self.place[pair] for pair in busy if pair in self.place]
        if taken:
            free &= ~np.isin(places, taken)
        return free
