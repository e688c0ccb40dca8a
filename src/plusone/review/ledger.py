"""What holds now, derived from the history of answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from plusone.review.store import Entry, Pair


class Verdict(NamedTuple):
    """What is known about one question.

    Args:
        answer: "yes" or "no" as said last; "skip" if it was only skipped; None if it is open.
        opinions: The last yes or no of each session that gave one.
        last: Number of the row that decided it, 0 if it is open.
    """

    answer: str | None
    opinions: tuple[str, ...]
    last: int


def verdict(history: Sequence[Entry]) -> Verdict:
    """Folds the rows about one question; undone rows and undos must be left out."""
    latest: dict[str, Entry] = {}
    for entry in history:
        latest[entry.session] = entry
    said = [entry for entry in latest.values() if entry.action != "skip"]
    deciding = max(said or latest.values(), key=lambda entry: entry.id, default=None)
    if deciding is None:
        return Verdict(None, (), 0)
    return Verdict(deciding.action, tuple(entry.action for entry in said), deciding.id)


class Ledger:
    """All verdicts, kept up to date with the history as it grows.

    `last` is the number of the last row taken in; `repeated` counts the questions answered in
    several sessions, `agreeing` those of them where all said the same.
    """

    def __init__(self) -> None:
        self.last = 0
        self.repeated = 0
        self.agreeing = 0
        self._history: dict[Pair, list[Entry]] = {}
        self._verdicts: dict[Pair, Verdict] = {}

    @property
    def verdicts(self) -> Mapping[Pair, Verdict]:
        """The verdicts of all questions about which anything was ever said."""
        return self._verdicts

    def add(self, entries: Iterable[Entry]) -> dict[Pair, Verdict]:
        """Takes new rows in; returns the verdicts of the questions they are about."""
        touched: set[Pair] = set()
        for entry in entries:
            pair = (entry.item, entry.label)
            history = self._history.setdefault(pair, [])
            if entry.action == "undo":
                history[:] = [old for old in history if old.step != entry.undoes]
            else:
                history.append(entry)
            touched.add(pair)
            self.last = entry.id
        changed = {pair: verdict(self._history[pair]) for pair in touched}
        for pair, now in changed.items():
            self._count(self._verdicts.get(pair), -1)
            self._count(now, 1)
        self._verdicts.update(changed)
        return changed

    def _count(self, one: Verdict | None, sign: int) -> None:
        if one is not None and len(one.opinions) > 1:
            self.repeated += sign
            self.agreeing += sign * (len(set(one.opinions)) == 1)
