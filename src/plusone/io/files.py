"""Writing files so that nobody ever finds half of one, and knowing who works in a folder."""

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

# What the system says when a disk cannot take more, and how we say it.
NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "the file would be larger than files may be here",
}

_held: set[int] = set()  # folders this process is alone in


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary path beside `path`; on success it takes the place of `path`.

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
    """Names the file in errors of the system that name none, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        full = error.errno in NO_ROOM  # named after the file that was wanted, not a temporary one
        if error.errno is not None and (full or error.filename is None):
            error.filename = os.fspath(path)
        raise


def room(error: OSError) -> str | None:
    """What to tell a person whose disk took no more, in a sentence; None for other errors."""
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
        f"{name}: could not be written, {NO_ROOM[error.errno]}{free}; what was there before is "
        "whole: make room, then go on"
    )


def _amount(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e3:,.1f} kB"


def reserve(path: Path) -> None:
    """Makes sure that the disk has room for a file as long as it is, where the system can do so.

    Writing to a mapped file on a disk without room ends the process without a word.
    """
    if hasattr(os, "posix_fallocate"):
        with naming(path), path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)


def write_text(path: Path, text: str) -> None:
    """Writes a text file in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file in one step."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Refuses a folder in which another process is at work; makes it if it is not there.

    The system gives the folder free when this process ends, however it ends. File systems that
    know no locks are trusted. Of several processes that torchrun starts the first has the folder.
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
    _held.add(handle)
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
        _held.discard(handle)
        os.close(handle)


def _let_go() -> None:
    """Processes that a killed one leaves behind for a moment must not keep its folder."""
    for handle in _held:
        os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Waits while another process is in such a block with the same path, where that can be known.

    Args:
        path: A file that is there during the block, and that nobody needs otherwise.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        yield
        return
    try:
        if fcntl is not None:
            with suppress(OSError):  # file systems that know no locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
        with suppress(OSError):
            path.unlink()


def cache_folder() -> Path | None:
    """Where things are kept that can be made again; None if `PLUSONE_CACHE` is set and empty."""
    place = os.environ.get("PLUSONE_CACHE")
    if place == "":
        return None
    try:
        return Path(place) if place else Path.home() / ".cache" / "plusone"
    except RuntimeError:  # there is no home folder
        return None


def clear_leftovers(folder: Path) -> None:
    """Removes what a killed process was about to write into a folder."""
    for leftover in folder.glob(".*.part"):
        leftover.unlink(missing_ok=True)
