"""The history of answers: nothing lost, nothing twice, undo, leases."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from plusone.errors import InputError, RunError
from plusone.reviewing import opening
from plusone.reviewing.store import LEASE_SECONDS, Answer, Ledger, Store

A, B = "a" * 16, "b" * 16
DOG, FOX = ("1.png", "dog"), ("1.png", "fox")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "r.sqlite")


def ledger(store):
    found = Ledger()
    found.add(store.since())
    return found


def said(store, pair=DOG):
    one = ledger(store).verdicts.get(pair)
    return None if one is None else one.answer


def test_every_decision_is_a_row_and_the_file_keeps_it(store, tmp_path):
    store.append(A, "01", [Answer(*DOG, "yes"), Answer(*FOX, "skip")])
    store.undo(A, "02")
    store.append(A, "03", [Answer(*DOG, "no")])
    again = Store(tmp_path / "r.sqlite")
    assert [(e.session, e.step, e.label, e.action, e.undoes) for e in again.since()] == [
        (A, "01", "dog", "yes", None),
        (A, "01", "fox", "skip", None),
        (A, "02", "dog", "undo", "01"),
        (A, "02", "fox", "undo", "01"),
        (A, "03", "dog", "no", None),
    ]
    assert [e.label for e in again.since(4)] == ["dog"]
    assert (said(again), said(again, FOX)) == ("no", None)


def test_a_step_sent_twice_counts_once(store):
    for _ in range(2):
        store.append(A, "01", [Answer(*DOG, "yes")])
    for _ in range(2):
        assert store.undo(A, "02") == [Answer(*DOG, "yes")]
    assert len(store.since()) == 2
    assert said(store) is None


def test_undo_goes_back_step_by_step_within_a_session(store):
    store.append(A, "01", [Answer(*DOG, "yes")])
    store.append(B, "02", [Answer(*FOX, "no")])
    store.append(A, "03", [Answer(*DOG, "no")])
    assert store.undo(A, "04") == [Answer(*DOG, "no")]
    assert said(store) == "yes"
    assert store.undo(A, "05") == [Answer(*DOG, "yes")]
    assert said(store) is None
    assert store.undo(A, "06") == []
    assert said(store, FOX) == "no"
    assert store.undo(B, "02") == []  # the name of an answer is not the name of an undo
    assert said(store, FOX) == "no"


def test_a_second_session_gives_a_second_opinion(store):
    store.append(A, "01", [Answer(*DOG, "yes"), Answer(*FOX, "yes")])
    store.append(B, "02", [Answer(*DOG, "no"), Answer(*FOX, "yes")])
    found = ledger(store)
    assert found.verdicts[DOG].answer == "no"  # what was said last holds
    assert sorted(found.verdicts[DOG].opinions) == ["no", "yes"]
    assert (found.repeated, found.agreeing) == (2, 1)
    store.undo(B, "03")
    found.add(store.since(found.last))
    assert found.verdicts[DOG].answer == "yes"
    assert (found.repeated, found.agreeing) == (0, 0)


def test_undo_leaves_what_others_said_later(store):
    store.append(A, "01", [Answer(*DOG, "yes")])
    store.append(B, "02", [Answer(*DOG, "no")])
    assert store.undo(A, "03") == [Answer(*DOG, "yes")]
    assert ledger(store).verdicts[DOG] == ("no", ("no",), 2)


def test_a_correction_in_the_same_session_is_no_second_opinion(store):
    store.append(A, "01", [Answer(*DOG, "yes")])
    store.append(A, "02", [Answer(*DOG, "no")])
    found = ledger(store)
    assert found.verdicts[DOG].opinions == ("no",)
    assert found.repeated == 0


def test_a_skip_does_not_outweigh_an_answer(store):
    store.append(A, "01", [Answer(*DOG, "yes")])
    store.append(B, "02", [Answer(*DOG, "skip")])
    assert said(store) == "yes"
    store.append(A, "03", [Answer(*DOG, "skip")])
    assert said(store) == "skip"


def test_only_known_actions_are_kept(store):
    with pytest.raises(sqlite3.IntegrityError):
        store._open.execute(
            "INSERT INTO decision (time, session, step, item, label, action) "
            "VALUES (0, 'a', 'b', 'c', 'd', 'maybe')"
        )


def test_leases_keep_sessions_apart_and_end(tmp_path):
    now = [1000.0]
    one = Store(tmp_path / "r.sqlite", clock=lambda: now[0])
    other = Store(tmp_path / "r.sqlite", clock=lambda: now[0])  # as another process would

    def first_free(busy):
        return [pair for pair in (DOG, FOX) if pair not in busy][:1]

    assert one.lease(A, first_free) == [DOG]
    assert other.lease(B, first_free) == [FOX]
    assert one.lease(A, first_free) == [DOG]  # its own does not stand in its way
    other.lease(B, lambda busy: [])
    assert one.lease("c" * 16, first_free) == [FOX]
    one.release("c" * 16)
    now[0] += LEASE_SECONDS - 1
    one.hold(A)
    now[0] += LEASE_SECONDS - 1
    assert other.lease(B, first_free) == [FOX]
    now[0] += 2
    assert other.lease(B, first_free) == [DOG]  # the first was given up


def test_leases_do_not_depend_on_the_clock_of_the_computer(tmp_path, monkeypatch):
    wall = [2_000_000_000.0]
    monkeypatch.setattr("time.time", lambda: wall[0])
    store = Store(tmp_path / "r.sqlite")
    assert store.lease(A, lambda busy: [DOG]) == [DOG]
    for jump in (10**6, -(10**7)):
        wall[0] += jump
        assert store.lease(B, lambda busy: sorted({DOG, FOX} - busy)) == [FOX]
    store.append(A, "01", [Answer(*DOG, "yes")])
    assert store.since()[0].time == wall[0]
    restarted = Store(tmp_path / "r.sqlite", clock=lambda: 5.0)  # the monotonic clock began anew
    assert restarted.lease("c" * 16, lambda busy: sorted({DOG, FOX} - busy)) == [DOG, FOX]


def test_files_that_are_no_history_are_refused(tmp_path):
    (tmp_path / "text").write_text("not a database, " * 100)
    with pytest.raises(InputError, match="cannot be used as the database of answers"):
        Store(tmp_path / "text")
    with pytest.raises(InputError, match="cannot be used as the database of answers"):
        Store(tmp_path / "none" / "r.sqlite")
    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(InputError, match="newer plusone"):
        Store(tmp_path / "newer")


def state_of(folder):
    """Content and modification times of all files but SQLite's index of locks."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
        if not path.name.endswith("-shm")
    }


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE bookmarks (url TEXT)",
        "CREATE TABLE decision (what TEXT)",  # the name of one of our tables
        "CREATE TABLE bookmarks (url TEXT); PRAGMA user_version = 1",
        "CREATE TABLE bookmarks (url TEXT); PRAGMA user_version = 77",
    ],
)
def test_the_database_of_another_program_is_not_touched(tmp_path, mode, sql):
    other = sqlite3.connect(tmp_path / "places.sqlite")
    other.executescript(f"PRAGMA journal_mode = {mode}; {sql}")
    if mode == "delete":
        other.close()
    before = state_of(tmp_path)
    with pytest.raises(InputError, match=r"cannot be used as the database of answers .*not ours"):
        Store(tmp_path / "places.sqlite")
    assert state_of(tmp_path) == before
    other.close()


def test_links_do_not_lead_to_files_elsewhere(tmp_path, suggestions):
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    (suggestions / "review.sqlite").symlink_to(victim)
    with pytest.raises(InputError, match="is a link that leaves the folder"):
        opening.open_suggestions(suggestions)
    (suggestions / "review.sqlite").unlink()
    opening.open_suggestions(suggestions).store.close()
    for part in ("wal", "shm", "journal"):
        victim.write_text("mine")
        beside = suggestions / f"review.sqlite-{part}"
        beside.unlink(missing_ok=True)
        beside.symlink_to(victim)
        with pytest.raises(InputError, match=f"review.sqlite-{part} beside it is a link"):
            opening.open_suggestions(suggestions)
        assert victim.read_text() == "mine"
        beside.unlink()
    with pytest.raises(InputError, match="is a device, not a file"):
        Store(Path("/dev/null"))


def test_a_link_that_the_user_names_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("r.sqlite")
    for _ in range(2):
        store = Store(tmp_path / "link")
        store.append(A, "01", [Answer(*DOG, "yes")])
        store.close()
    assert (tmp_path / "link").is_symlink()
    assert said(Store(tmp_path / "r.sqlite")) == "yes"


def test_a_file_that_is_refused_is_closed_again(tmp_path, monkeypatch):
    def is_open():
        return str(path) in {file.path for file in psutil.Process().open_files()}

    path = tmp_path / "prepared.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE VIEW decision AS SELECT 1")
        assert is_open()
    with pytest.raises(InputError, match="cannot be used as the database of answers") as refused:
        Store(path)
    assert refused.value.__traceback__ is not None  # it keeps what was made on the way
    assert not is_open()

    def refuse(*_: object) -> None:
        raise InputError("no")

    monkeypatch.setattr(opening, "NewItemDesk", refuse)
    path = tmp_path / "new.sqlite"
    (tmp_path / "classes.txt").write_text("a\n")
    (tmp_path / "new.csv").write_text("image\n1.png\n")
    with pytest.raises(InputError, match="no") as refused:
        opening.open_new_items(tmp_path / "new.csv", tmp_path / "classes.txt", database=path)
    assert path.exists()
    assert not is_open()


@pytest.mark.parametrize("what", ["delete", "move", "replace", "delete the log"])
def test_no_answer_is_acknowledged_into_a_file_that_is_gone(store, tmp_path, what):
    store.append(A, "01", [Answer(*DOG, "yes")])
    path = tmp_path / "r.sqlite"
    if what == "delete":
        path.unlink()
    elif what == "delete the log":
        (tmp_path / "r.sqlite-wal").unlink()
    else:
        path.rename(tmp_path / "moved.sqlite")
        if what == "replace":
            Store(tmp_path / "new.sqlite").close()
            (tmp_path / "new.sqlite").rename(path)
    for save in (
        lambda: store.append(A, "02", [Answer(*FOX, "no")]),
        lambda: store.undo(A, "03"),
        lambda: store.hold(A),
    ):
        with pytest.raises(RunError, match="was deleted, moved or replaced"):
            save()


def test_the_file_alone_has_all_answers(store, tmp_path):
    """As after a kill, when somebody copies the file without the log beside it."""
    for number in range(20):
        store.append(A, f"{number:02}", [Answer(str(number), "dog", "yes")])
    store.undo(A, "20")
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "r.sqlite", tmp_path / "copy" / "r.sqlite")
    assert len(Store(tmp_path / "copy" / "r.sqlite").since()) == 21
    store.close()
    assert not (tmp_path / "r.sqlite-wal").exists()


def test_a_log_without_its_file_is_not_thrown_away(store, tmp_path):
    store.append(A, "01", [Answer(*DOG, "yes")])
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "r.sqlite-wal", tmp_path / "other" / "r.sqlite-wal")
    before = state_of(tmp_path / "other")
    with pytest.raises(InputError, match=r"r.sqlite-wal has answers that belong to it"):
        Store(tmp_path / "other" / "r.sqlite")
    assert state_of(tmp_path / "other") == before
    shutil.copy(tmp_path / "r.sqlite", tmp_path / "other" / "r.sqlite")
    assert said(Store(tmp_path / "other" / "r.sqlite")) == "yes"
