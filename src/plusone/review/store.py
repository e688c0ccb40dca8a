"""The history of answers: one append-only SQLite file, and the verdicts derived from it.

The current answers are derived from the rows (`Ledger`), so the whole history is kept, including
undone steps. Items and classes are stored by name: suggestions can be computed again without losing
an answer. Every step has a random name; sending it twice, because a reply got lost, adds it once.

A question on somebody's screen is leased to that session for a while, so that two tabs, or two
servers on the same file, do not ask the same question.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from plusone.errors import InputError, RunError

VERSION = 1
LEASE_SECONDS = 120.0
TIMEOUT = 30.0  # seconds to wait for another process that is writing

SCHEMA = """
CREATE TABLE IF NOT EXISTS decision (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time REAL NOT NULL,
  session TEXT NOT NULL,
  step TEXT NOT NULL,
  item TEXT NOT NULL,
  label TEXT NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('yes', 'no', 'skip', 'undo')),
  undoes TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS once ON decision (step, item, label);
CREATE INDEX IF NOT EXISTS by_session ON decision (session, id);
CREATE INDEX IF NOT EXISTS undone ON decision (undoes) WHERE undoes IS NOT NULL;
CREATE TABLE IF NOT EXISTS lease (
  item TEXT NOT NULL,
  label TEXT NOT NULL,
  session TEXT NOT NULL,
  until REAL NOT NULL,
  PRIMARY KEY (item, label)
) WITHOUT ROWID;
"""

Pair = tuple[str, str]  # the names of an item and of a class


class Answer(NamedTuple):
    """One answer: `action` is yes, no or skip; an empty label stands for the item itself."""

    item: str
    label: str
    action: str


class Entry(NamedTuple):
    """One row of the history; `undoes` is the name of the step that an undo reverts."""

    id: int
    time: float
    session: str
    step: str
    item: str
    label: str
    action: str
    undoes: str | None


class Store:
    """Appends and reads the history.

    Args:
        path: The SQLite file; created if missing.
        clock: Returns the time in seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._open = _connect(path)

    def close(self) -> None:
        self._open.close()

    def append(self, session: str, step: str, answers: Sequence[Answer]) -> None:
        """Adds one step; when this returns it is on the disk."""
        now = self._clock()
        with self._writing() as database:
            database.executemany(
                "INSERT OR IGNORE INTO decision (time, session, step, item, label, action) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [(now, session, step, *answer) for answer in answers],
            )

    def undo(self, session: str, step: str) -> list[Answer]:
        """Reverts the last step of a session; returns its answers, or nothing."""
        with self._writing() as database:
            done = database.execute("SELECT undoes FROM decision WHERE step = ?", (step,))
            row = done.fetchone() or database.execute(_LAST_STEP, (session,)).fetchone()
            if row is None or row[0] is None:
                return []
            rows = database.execute(
                "SELECT item, label, action FROM decision WHERE step = ? ORDER BY id", row
            )
            answers = [Answer(*values) for values in rows.fetchall()]
            database.executemany(
                "INSERT OR IGNORE INTO decision "
                "(time, session, step, item, label, action, undoes) "
                "VALUES (?, ?, ?, ?, ?, 'undo', ?)",
                [(self._clock(), session, step, a.item, a.label, row[0]) for a in answers],
            )
        return answers

    def since(self, last: int = 0) -> list[Entry]:
        """The rows after the given row, oldest first."""
        try:
            rows = self._open.execute(
                "SELECT id, time, session, step, item, label, action, undoes "
                "FROM decision WHERE id > ? ORDER BY id",
                (last,),
            ).fetchall()
        except (sqlite3.Error, ValueError) as error:
            raise RunError(f"{self.path}: the answers cannot be read ({error})") from None
        return [Entry(*row) for row in rows]

    def lease(
        self, session: str, choose: Callable[[frozenset[Pair]], Sequence[Pair]]
    ) -> Sequence[Pair]:
        """Leases questions to a session, replacing its earlier leases.

        Args:
            session: The session.
            choose: Takes the questions leased to other sessions and returns those to lease.
        """
        with self._writing() as database:
            now = self._clock()
            database.execute("DELETE FROM lease WHERE until < ? OR session = ?", (now, session))
            busy = frozenset(database.execute("SELECT item, label FROM lease").fetchall())
            chosen = choose(busy)
            database.executemany(
                "INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)",
                [(*pair, session, now + LEASE_SECONDS) for pair in chosen],
            )
        return chosen

    def hold(self, session: str) -> None:
        """Renews the leases of a session."""
        until = self._clock() + LEASE_SECONDS
        with self._writing() as database:
            database.execute("UPDATE lease SET until = ? WHERE session = ?", (until, session))

    def release(self, session: str) -> None:
        """Ends the leases of a session."""
        with self._writing() as database:
            database.execute("DELETE FROM lease WHERE session = ?", (session,))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            self._open.execute("BEGIN IMMEDIATE")
            try:
                yield self._open
            except BaseException:
                self._open.execute("ROLLBACK")
                raise
            self._open.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if self._open.in_transaction:
                self._open.execute("ROLLBACK")
            raise RunError(f"{self.path}: the answer could not be saved ({error})") from None


_LAST_STEP = """
SELECT step FROM decision AS answered
WHERE session = ? AND action != 'undo'
  AND NOT EXISTS (SELECT 1 FROM decision WHERE undoes = answered.step)
ORDER BY id DESC LIMIT 1
"""


def _connect(path: Path) -> sqlite3.Connection:
    database = None
    try:
        database = sqlite3.connect(
            path, timeout=TIMEOUT, isolation_level=None, check_same_thread=False
        )
        database.execute("PRAGMA trusted_schema = OFF")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise InputError(f"{path}: was written by a newer plusone; update this one")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        if version < VERSION:
            make = f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT"
            database.executescript(make)
        _check_schema(database)
    except (sqlite3.Error, ValueError) as error:  # ValueError: text that is not UTF-8
        if database is not None:
            database.close()
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: cannot be used as the database of answers ({error}); --db names another"
        ) from None
    return database


def _check_schema(database: sqlite3.Connection) -> None:
    """Refuses unknown tables, views and triggers: they would run within our statements."""
    ours = {"decision", "lease", "once", "by_session", "undone", "sqlite_sequence"}
    for kind, name in database.execute("SELECT type, name FROM sqlite_master"):
        known = name in ours or str(name).startswith("sqlite_autoindex_")
        if kind not in ("table", "index") or not known:
            raise sqlite3.DatabaseError(f"it holds the {kind} {name!r}, which is not ours")


class Verdict(NamedTuple):
    """The current answer to one question.

    Args:
        answer: The last "yes" or "no"; "skip" if it was only skipped; None if it is open.
        opinions: The last yes or no of each session that gave one.
        last: Number of the row that decided it, 0 if it is open.
    """

    answer: str | None
    opinions: tuple[str, ...]
    last: int


def verdict(history: Sequence[Entry]) -> Verdict:
    """The verdict of the rows about one question, without undone rows and undos."""
    latest: dict[str, Entry] = {}
    for entry in history:
        latest[entry.session] = entry
    opinions = [entry for entry in latest.values() if entry.action != "skip"]
    deciding = max(opinions or latest.values(), key=lambda entry: entry.id, default=None)
    if deciding is None:
        return Verdict(None, (), 0)
    return Verdict(deciding.action, tuple(entry.action for entry in opinions), deciding.id)


class Ledger:
    """All verdicts, updated as the history grows.

    `last` is the number of the last row added; `repeated` counts the questions answered in
    several sessions, `agreeing` those of them with the same answer in all.
    """

    def __init__(self) -> None:
        self.last = 0
        self.repeated = 0
        self.agreeing = 0
        self._history: dict[Pair, list[Entry]] = {}
        self._verdicts: dict[Pair, Verdict] = {}

    @property
    def verdicts(self) -> Mapping[Pair, Verdict]:
        """The verdicts of all questions that were ever answered."""
        return self._verdicts

    def add(self, entries: Iterable[Entry]) -> dict[Pair, Verdict]:
        """Adds new rows; returns the verdicts of the questions they are about."""
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
