"""Atomic writes, errors of full disks, locks on folders and files, and the cache folder."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from plusone.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: no locks of this kind
    fcntl = None  # type: ignore[assignment]

# System errors of a disk without space, and their wording in messages.
NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "the file would be larger than files may be here",
}

_locked: set[int] = set()  # handles of the folders that this process has locked


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, which replaces `path` when the block succeeds.

    If the block raises, `path` keeps its old content and the temporary file is removed.
    """
    path = Path(path)
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the file name to system errors that have none, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        full = error.errno in NO_ROOM  # may carry the name of the temporary file
        if error.errno is not None and (full or error.filename is None):
            error.filename = os.fspath(path)
        raise


def room(error: OSError) -> str | None:
    """A message for an error of a full disk; None for other errors."""
    if error.errno not in NO_ROOM:
        return None
    where = error.filename2 or error.filename
    free = ""
    if where is not None:
        path = Path(os.fsdecode(where)).absolute()
        place = next(folder for folder in (path, *path.parents) if folder.is_dir())
        free = f" ({_amount(shutil.disk_usage(place).free)} are free)"
    name = "the output" if where is None else os.fsdecode(where)
    return (
        f"{name}: could not be written, {NO_ROOM[error.errno]}{free}; the previous content is "
        "intact: free some space and run it again"
    )


def _amount(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e3:,.1f} kB"


def reserve(path: Path) -> None:
    """Allocates the disk space of a (sparse) file, where the system supports it.

    Otherwise, writing to a memory-mapped file on a full disk kills the process without a message.
    """
    if hasattr(os, "posix_fallocate"):
        with naming(path), path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Locks a folder, which is created if it is missing; refuses one that is locked already.

    The system releases the lock when this process ends, however it ends. On file systems without
    locks nothing is checked. Of several processes started by torchrun, rank 0 holds the lock.

    Raises:
        InputError: Another process has locked the folder.
    """
    alone = int(os.environ.get("WORLD_SIZE") or 1) == 1
    first = alone or int(os.environ.get("RANK") or 0) == 0
    if first:
        with naming(folder):
            folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None or not first:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    _locked.add(handle)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder}: another plusone is at work in this folder; wait until it is done, or "
                "choose another --out"
            ) from None
        except OSError:
            pass
        yield
    finally:
        _locked.discard(handle)
        os.close(handle)


def _let_go() -> None:
    """Closes inherited handles, so that the children of a killed process do not keep its lock."""
    for handle in _locked:
        os.close(handle)
    _locked.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Waits while another process runs such a block with the same path; best effort.

    Args:
        path: A lock file, which exists only during the block.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        yield
        return
    try:
        if fcntl is not None:
            with suppress(OSError):  # file systems without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
        with suppress(OSError):
            path.unlink()


def cache_folder() -> Path | None:
    """The folder for files that can be recomputed; None if `PLUSONE_CACHE` is set and empty."""
    place = os.environ.get("PLUSONE_CACHE")
    if place == "":
        return None
    try:
        return Path(place) if place else Path.home() / ".cache" / "plusone"
    except RuntimeError:  # there is no home folder
        return None


def clear_leftovers(folder: Path) -> None:
    """Removes the temporary files that a killed process left in a folder."""
    for leftover in folder.glob(".*.part"):
        leftover.unlink(missing_ok=True)
