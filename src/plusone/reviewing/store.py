"""The history of answers: one append-only SQLite file, and the verdicts derived from it.

The current answers are derived from the rows (`Ledger`), so the whole history is kept, including
undone steps. Items and classes are stored by name: suggestions can be computed again without losing
an answer. Every step has a random name; sending it twice, because a reply got lost, adds it once.

A question on somebody's screen is leased to that session for a while, so that two tabs, or two
servers on the same file, do not ask the same question.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from plusone.errors import InputError, RunError
from plusone.io.files import output_file

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
        clock: Returns the time in seconds that leases are measured by. It is monotonic: setting
            the clock of the computer does not end or prolong them.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._open = _connect(path)
        self._files = _identities(path)

    def close(self) -> None:
        """Closes the file; the last one to do so leaves a single file behind."""
        self._open.close()

    def append(self, session: str, step: str, answers: Sequence[Answer]) -> None:
        """Adds one step; when this returns it is on the disk, otherwise it is a `RunError`."""
        now = time.time()
        with self._writing() as database:
            database.executemany(
                "INSERT OR IGNORE INTO decision (time, session, step, item, label, action) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [(now, session, step, *answer) for answer in answers],
            )
        self._settle()

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
                [(time.time(), session, step, a.item, a.label, row[0]) for a in answers],
            )
        self._settle()
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
        """Leases what `choose` picks, given the questions leased to others, to a session."""
        with self._writing() as database:
            now = self._clock()
            # A lease that lasts longer than any is from before the computer was started.
            ended = (now, now + LEASE_SECONDS, session)
            database.execute("DELETE FROM lease WHERE until < ? OR until > ? OR session = ?", ended)
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
        if _identities(self.path) != self._files:
            raise RunError(
                f"{self.path}: was deleted, moved or replaced while the review is open, together "
                "with the answers in it; stop the server and put it back"
            )

    def _settle(self) -> None:
        """Moves what was written from the log beside the file into the file itself."""
        with suppress(sqlite3.Error):  # it is safe in the log, too
            self._open.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _identities(path: Path) -> list[tuple[int, int] | None]:
    """Which files the database and its log are: device and inode, None if there is none."""
    found: list[tuple[int, int] | None] = []
    for name in (path, f"{os.path.realpath(path)}-wal"):
        try:
            status = os.stat(name)
            found.append((status.st_dev, status.st_ino))
        except OSError:
            found.append(None)
    return found


_LAST_STEP = """
SELECT step FROM decision AS answered
WHERE session = ? AND action != 'undo'
  AND NOT EXISTS (SELECT 1 FROM decision WHERE undoes = answered.step)
ORDER BY id DESC LIMIT 1
"""


def _connect(path: Path) -> sqlite3.Connection:
    database = None
    try:
        _check_file(path)
        database = sqlite3.connect(
            path, timeout=TIMEOUT, isolation_level=None, check_same_thread=False
        )
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        if database.execute("PRAGMA user_version").fetchone() == (0,):
            make = f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT"
            database.executescript(make)
        database.execute("BEGIN IMMEDIATE")  # so that the log exists, and can be watched
        database.execute("DELETE FROM lease WHERE until < 0")
        database.execute("COMMIT")
        _check_content(database, path)
    except (sqlite3.Error, ValueError) as error:  # ValueError: text that is not UTF-8
        if database is not None:
            database.close()
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: cannot be used as the database of answers ({error}); --db names another"
        ) from None
    return database


def _check_file(path: Path) -> None:
    """Refuses a file that is not a history of answers; nothing in or beside it changes."""
    target = output_file(path)
    beside = [target.with_name(f"{target.name}-{part}") for part in ("wal", "shm", "journal")]
    for part in beside:  # SQLite would write through them
        if part.is_symlink() or (part.exists() and not part.is_file()):
            raise sqlite3.DatabaseError(f"{part.name} beside it is a link, or not a file")
    if not target.exists() or not target.stat().st_size:
        if beside[0].exists() and beside[0].stat().st_size:
            raise sqlite3.DatabaseError(
                f"it is missing, and {beside[0].name} has answers that belong to it: put both into "
                "one folder, or remove that file"
            )
        return
    # Without a log of changes, "immutable" keeps SQLite from making any file beside it.
    mode = "mode=ro" if beside[0].exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{target.absolute().as_uri()}?{mode}", uri=True)) as database:
        database.execute("PRAGMA trusted_schema = OFF")
        _check_content(database, path)


def _check_content(database: sqlite3.Connection, path: Path) -> None:
    """Refuses tables, views and triggers of others: they would run within our statements."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    entries = set(database.execute("SELECT type, name, sql FROM sqlite_master"))
    if version > VERSION and (not entries or any(name == "decision" for _, name, _ in entries)):
        raise InputError(f"{path}: was written by a newer plusone; update this one")
    with closing(sqlite3.connect(":memory:")) as own:
        own.executescript(SCHEMA)
        ours = set(own.execute("SELECT type, name, sql FROM sqlite_master"))
    if others := entries - ours:
        kind, name, _ = min(others, key=str)
        raise sqlite3.DatabaseError(f"it holds the {kind} {name!r}, which is not ours")
    if entries and (version != VERSION or entries != ours):
        raise sqlite3.DatabaseError("it is not a history of answers")


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
