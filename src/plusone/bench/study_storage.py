"""Where Optuna's studies are kept: a journal file of one search, or a database that many share.

In a database a trial that runs gives signs of life, so that the others wait for it and no longer:
if its process was killed, the trial counts as failed after `GRACE` seconds and is replaced.

Databases are those of SQL. Optuna's other kind of storage, Redis, would be read through pickle.
"""

from __future__ import annotations

import importlib
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from plusone.bounded import parse_json
from plusone.errors import InputError, RunError
from plusone.files import write_text

JOURNAL = "optuna.journal"
DATABASES = ("sqlite", "postgresql", "mysql", "mariadb")
HEARTBEAT = 10
GRACE = 60
TRIES = 5  # where several processes make the tables of a new database at the same moment
THEIRS = ("optuna", "sqlalchemy", "psycopg", "sqlite3", "pymysql", "MySQLdb")


def import_optuna() -> Any:
    """Optuna, or a sentence that says how to get it."""
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise InputError(
            "--search optuna needs Optuna, which is not installed: pip install 'plusone[tune]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


@contextmanager
def quiet(optuna: Any) -> Iterator[None]:
    """Without Optuna's warnings about what is new in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Heartbeat of storage")
        yield


def open_storage(optuna: Any, folder: Path, address: str | None) -> Any:
    """Where the studies are kept.

    Args:
        optuna: The module.
        folder: Where the journal is, if there is no database.
        address: That of a database, such as `postgresql+psycopg://me:password@host/studies`.
    """
    if address is None:
        return _journal(optuna, folder)
    place = without_password(address)
    kind = address.partition(":")[0].partition("+")[0]
    if kind not in DATABASES or "://" not in address:
        known = ", ".join(f"{name}://" for name in DATABASES)
        raise InputError(f"--storage {place}: cannot be used (it must begin with one of {known})")
    for attempt in range(1, TRIES + 1):
        try:
            return optuna.storages.RDBStorage(
                address, heartbeat_interval=HEARTBEAT, grace_period=GRACE
            )
        except Exception as error:  # whatever a database has to say
            if attempt == TRIES or not _made_elsewhere(error):
                raise InputError(
                    f"--storage {place}: cannot be used ({_first(error, address)})"
                ) from None
        time.sleep(0.2 * attempt)
    raise AssertionError("unreachable")


def _made_elsewhere(error: Exception) -> bool:
    """Whether another process was making the same tables."""
    text = str(error).lower()
    return any(word in text for word in ("already exists", "duplicate", "unique", "locked"))


def without_password(address: str) -> str:
    """The address of a database, to be shown.

    >>> without_password("postgresql://me:secret@host:5432/db")
    'host:5432/db'
    """
    return address.rpartition("@")[2]


def _first(error: Exception, address: str) -> str:
    """The first line of what an error says, without the password."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0].replace(address, "it")
    try:
        secret = urlsplit(address).password or ""
    except ValueError:
        secret = ""
    for word in (secret, unquote(secret)):
        text = text.replace(word, "***") if word else text
    return text


@contextmanager
def said_plainly(address: str | None) -> Iterator[None]:
    """Turns what a database says in the middle of a search into one sentence."""
    try:
        yield
    except Exception as error:
        if address is None or type(error).__module__.partition(".")[0] not in THEIRS:
            raise
        raise RunError(
            f"--storage {without_password(address)}: stopped answering "
            f"({_first(error, address)}); what finished is kept, the same command goes on"
        ) from None


@contextmanager
def alive(storage: Any, trials: Sequence[Any], *, shared: bool) -> Iterator[None]:
    """Gives signs of life of trials while they run; trials that are broken off count as failed."""
    if not shared:
        yield
        return
    stop = threading.Event()

    def beat() -> None:
        while True:
            for trial in trials:
                with suppress(Exception):  # the next one may succeed; `tell` says what is wrong
                    storage.record_heartbeat(trial._trial_id)
            if stop.wait(HEARTBEAT):
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _journal(optuna: Any, folder: Path) -> Any:
    journal = importlib.import_module("optuna.storages.journal")
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / JOURNAL).resolve()  # its lock is a link to this path
    try:
        _mend(path)
        return optuna.storages.JournalStorage(journal.JournalFileBackend(str(path)))
    except (ValueError, KeyError, AssertionError, TypeError):  # whatever stands in the file
        raise InputError(
            f"{folder / JOURNAL}: cannot be read; delete it to begin the search again"
        ) from None


def _mend(path: Path) -> None:
    """Drops a line that a kill cut off, unless another process may be writing it now.

    Raises:
        ValueError: Another line is not JSON.
    """
    if not path.exists() or path.with_name(path.name + ".lock").is_symlink():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        write_text(path, "".join(lines[:-1]))
        del lines[-1]
    for line in lines:
        parse_json(line)
