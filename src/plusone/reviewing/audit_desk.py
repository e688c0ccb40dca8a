"""An audit on the review page: all labels of the items drawn, and what they could promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.table import LabelTable
from plusone.reviewing.desk import SuggestionDesk
from plusone.reviewing.pictures import Pictures
from plusone.reviewing.questions import NO, YES, Suggested
from plusone.reviewing.reviewed_labels import reviewed_table
from plusone.reviewing.store import Pair, Store, Verdict

EACH = 10  # items after which it is said what the audit could promise


class AuditDesk(SuggestionDesk):
    """A review that asks for all labels of its items.

    Args:
        questions: All unobserved labels of the items.
        store: The answers.
        promise: What could be promised after some audited items, as a sentence.
        pictures: Images of the items, if they are not files.
    """

    def __init__(
        self,
        questions: Suggested,
        store: Store,
        promise: Callable[[LabelTable], str],
        pictures: Pictures | None = None,
    ) -> None:
        self._promise, self._promised, self._said = promise, 0, ""
        self._asked_rows = np.unique(questions.suggestions.row)
        super().__init__(questions, store, pictures)

    @property
    def done(self) -> npt.NDArray[np.int64]:
        """Items all of whose questions are answered."""
        state = self.questions.state
        open_rows = self.questions.suggestions.row[(state != YES) & (state != NO)]
        return np.setdiff1d(self._asked_rows, open_rows)

    def audited(self) -> LabelTable:
        """The items all of whose labels are known now, with these labels."""
        return reviewed_table(self).table.take(self.done)

    def next_item(self, session: str, again: int = 0, row: int | None = None) -> dict[str, Any]:
        """As in every review, with the labels that are likely now first."""
        item = super().next_item(session, again, row)
        item.get("questions", []).sort(key=lambda one: -one["probability"])
        return item

    def _update(self, changed: dict[Pair, Verdict]) -> None:
        super()._update(changed)
        if len(self.done) // EACH != self._promised:
            self._promised = len(self.done) // EACH
            self._said = ""

    def _progress(self) -> dict[str, Any]:
        done = len(self.done)
        return super()._progress() | {"items": done, "of": len(self._asked_rows)}

    def promise(self) -> str:
        """What the audit could promise after the last ten items; "" before the first ten."""
        with self._lock:
            self._sync()
            if self._promised and not self._said:
                self._said = self._promise(self.audited())
            return self._said
