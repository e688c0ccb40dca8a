"""One study, several processes, one database: PostgreSQL where it is installed, else SQLite."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Timer

import pytest
from tests.patience import PATIENCE

from plusone.cli.app import main
from plusone.compare import search
from plusone.compare.search import database_errors, import_optuna, open_storage, quiet
from plusone.errors import InputError, RunError

pytest.importorskip("optuna")
pytest.importorskip("sqlalchemy")

pytestmark = pytest.mark.slow
PASSWORD = "pass-w0rd"
SCRIPT = Path(__file__).with_name("shared_search.py")


def _programs():
    """initdb and postgres, from the path or from where Debian puts them."""
    places = [None, *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin")))]
    for place in places:
        found = [shutil.which(name, path=place) for name in ("initdb", "postgres")]
        if all(found):
            return found
    return None


def _user():
    """PostgreSQL does not run as root: somebody else, or None if we are not root."""
    if os.geteuid():
        return None
    import pwd

    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return None


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """`address()` gives an empty database."""
    programs = _programs()
    user = _user()
    if programs is None or (user is None and not os.geteuid()):
        folder = tmp_path_factory.mktemp("db")
        yield lambda: f"sqlite:///{folder}/{time.monotonic_ns()}.db"
        return
    psycopg = pytest.importorskip("psycopg")
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    (home / "password").write_text(PASSWORD)
    as_user = {} if user is None else {"user": user}
    if user is not None:
        for path in (home, home / "password"):
            os.chown(path, user, -1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    make = [programs[0], "-D", home / "data", "-U", "me", "-A", "scram-sha-256", "-N",
            f"--pwfile={home / 'password'}"]  # fmt: skip
    subprocess.run(make, check=True, capture_output=True, cwd=home, **as_user)
    server = subprocess.Popen(
        [programs[1], "-D", home / "data", "-h", "127.0.0.1", "-p", str(port), "-k", home,
         "-c", "fsync=off"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=home, **as_user,
    )  # fmt: skip
    base = f"me:{PASSWORD}@127.0.0.1:{port}"

    def new():
        name = f"studies{time.monotonic_ns()}"
        with psycopg.connect(f"postgresql://{base}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://{base}/{name}"

    try:
        for _ in range(300):
            try:
                psycopg.connect(f"postgresql://{base}/postgres").close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        yield new
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nobody needs the data
        server.wait(30)
        shutil.rmtree(home, ignore_errors=True)


def begin(url, number, trials, log, manner="work"):
    command = [sys.executable, str(SCRIPT), url, str(number), str(trials), str(log), manner]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def here(monkeypatch):
    """`here(url, number, trials, log)`: the same search in this process."""
    from . import shared_search

    monkeypatch.setattr(search, "HEARTBEAT", 1)
    monkeypatch.setattr(search, "GRACE", 3)
    monkeypatch.setattr(search, "POLL_SECONDS", 0.2)
    return shared_search.tune


def states(url):
    import optuna

    storage = optuna.storages.get_storage(url)
    (study,) = optuna.get_all_study_summaries(storage)
    trials = optuna.load_study(study_name=study.study_name, storage=storage).trials
    return [trial.state.name for trial in trials]


def tried(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_no_trial_is_lost_done_twice_or_too_many(address, tmp_path, here):
    url, log = address(), tmp_path / "log"
    other = begin(url, "other", 8, log)
    chosen = here(url, "this", 8, log)
    out, err = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0, err
    assert not err
    assert json.loads(out) == chosen
    done = tried(log)
    assert len(done) == 8
    assert len({(lr, str(options)) for _, lr, options in done}) == 8
    assert [lr for _, lr, _ in done].count(1e-3) == 1  # the defaults, once
    assert states(url).count("COMPLETE") == 8
    assert set(states(url)) <= {"COMPLETE", "FAIL"}  # FAIL: asked for at the same moment, not run


def test_a_killed_worker_holds_nobody_up(address, tmp_path, here):
    url, log = address(), tmp_path / "log"
    victim = begin(url, "victim", 4, log, "hang")
    try:
        until = time.monotonic() + PATIENCE
        while not log.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert tried(log) == [["victim", 1e-3, {}]]  # it has the trial with the defaults
        Timer(1.0, victim.kill).start()
        here(url, "this", 4, log)
    finally:
        victim.kill()
        victim.communicate()
    done = [lr for number, lr, _ in tried(log) if number == "this"]
    assert len(done) == 4
    assert done.count(1e-3) == 1  # tried again by somebody who lived
    assert sorted(states(url)) == ["COMPLETE"] * 4 + ["FAIL"]


def test_two_commands_share_their_trials_and_no_password_is_left(
    address, tmp_path, arrays, trained, monkeypatch, capsys
):
    url = address()
    monkeypatch.setenv("PLUSONE_STORAGE", url)
    command = ["bench", str(arrays), "-m", "em", "--seed", "0", "--search", "optuna",
               "--trials", "2", "--set", "epochs=1", "--workers", "1", "--no-report",
               "--json"]  # fmt: skip
    other = subprocess.Popen(
        [sys.executable, "-m", "plusone", *command, "--out", str(tmp_path / "a")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with pytest.raises(SystemExit) as end:
        main([*command, "--out", str(tmp_path / "b")])
    assert end.value.code == 0
    ours, (out, err) = capsys.readouterr(), other.communicate(timeout=PATIENCE)
    assert other.returncode == 0, err
    assert PASSWORD not in "".join((ours.out, ours.err, out, err))
    assert len({json.loads(text)["rows"][0]["lr"] for text in (ours.out, out)}) == 1
    journals = [tmp_path / name / "journal.jsonl" for name in ("a", "b")]
    lines = [line for journal in journals for line in journal.read_text().splitlines()]
    jobs = [json.loads(line)["key"] for line in lines]
    assert len(set(jobs)) == 2
    assert len(jobs) == 2 + 1  # the best one is trained by both
    assert states(url).count("COMPLETE") == 2
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()


def test_a_database_that_goes_away_is_said_without_its_password(tmp_path):
    optuna = import_optuna()
    with quiet(optuna):
        _refuse(optuna, tmp_path)
    with pytest.raises(RunError, match="the same command again"), database_errors("sqlite:///x"):
        raise optuna.exceptions.StorageInternalError("gone")


def _refuse(optuna, tmp_path):
    for url in ("redis://me:secret@host/0", "postgresql+psycopg://me:secret@127.0.0.1:1/db", "x"):
        with pytest.raises(InputError, match=r"^--storage .*: cannot be used") as refused:
            open_storage(optuna, tmp_path, url)
        assert "secret" not in str(refused.value)
