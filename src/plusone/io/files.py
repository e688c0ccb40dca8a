"""Atomic writes, errors of full disks, locks on folders and files, and the cache folder."""

from __future__ import annotations

import errno
import glob
import json
import os
import secrets
import shutil
import stat
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

LEFTOVER = ".plusone-part"  # how the names of temporary files end
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link that leads to itself"),
)

_locked: set[int] = set()  # handles of the folders that this process has locked


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, which replaces `path` when the block succeeds.

    If the block raises, `path` keeps its old content and the temporary file is removed. A link
    stays a link: the file that it leads to is replaced. An existing file keeps its mode and, where
    the system allows it, its owner; the mode of a new one follows the umask.

    Raises:
        InputError: The path leads to something that is not a regular file, such as a device.
    """
    path = Path(path)
    with naming(path):
        target = output_file(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        name = f".{target.name}.{secrets.token_hex(8)}{LEFTOVER}"
        temporary = target.with_name(name)
        held = os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), "rb")
        try:
            _lock(held.fileno())  # `clear_leftovers` of another process leaves it alone
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            _keep_mode(target, temporary, os.fstat(held.fileno()))
            if fcntl is None:
                held.close()  # Windows does not rename open files
            temporary.replace(target)
        finally:
            held.close()
            temporary.unlink(missing_ok=True)


@contextmanager
def part_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder beside `folder`, whose files are then moved there; removed at last.

    Those that killed processes left are removed first.
    """
    with naming(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(folder.parent, folder.name)
        part = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}{LEFTOVER}")
        part.mkdir()
    held = None if fcntl is None else os.open(part, os.O_RDONLY)
    try:
        if held is not None:
            _lock(held)
        yield part
    finally:
        if held is not None:
            os.close(held)
        shutil.rmtree(part, ignore_errors=True)


def output_file(path: Path) -> Path:
    """The file to write for a path: the path itself, or the file that a link leads to.

    Raises:
        InputError: There is something else than a regular file, which must not be replaced.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    try:
        mode = target.lstat().st_mode
    except OSError:  # there is nothing yet; creating it reports what is wrong with the folder
        return target
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in KINDS if test(mode)), "no regular file")
        raise InputError(f"{path}: is {kind}, not a file; choose another output")
    return target


def refuse_links_out(folder: Path) -> None:
    """Refuses a folder with links that leave it: they would decide where files are written.

    The folder and its direct subfolders are searched, where all outputs are.
    """
    if not folder.is_dir():
        return
    inside = folder.resolve()
    entries = list(os.scandir(folder))
    for entry in list(entries):
        if entry.is_dir(follow_symlinks=False):
            with suppress(PermissionError):
                entries += os.scandir(entry.path)
    for entry in entries:
        if entry.is_symlink() and not Path(os.path.realpath(entry.path)).is_relative_to(inside):
            raise InputError(
                f"{entry.path}: is a link that leaves the folder, and files are only written "
                "inside it; remove the link, or choose another --out"
            )


def _keep_mode(old: Path, new: Path, begun: os.stat_result) -> None:
    """Gives a new file the mode and the owner of the file that it is about to replace.

    Where there is none, those that it began with: writers may have put another file in its place.
    """
    now = new.stat()
    try:
        before = old.stat()
    except OSError:
        before = begun
    if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid) and hasattr(os, "chown"):
        with suppress(OSError):  # only root may
            os.chown(new, before.st_uid, before.st_gid)
    if stat.S_IMODE(before.st_mode) != stat.S_IMODE(now.st_mode):
        new.chmod(stat.S_IMODE(before.st_mode))


def _lock(handle: int, *, wait: bool = False) -> bool:
    """Locks an open file; False if another process holds the lock.

    Where the system or the file system has no locks, it is taken as locked.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the file name to system errors that have none, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        full = error.errno in NO_ROOM  # may carry the name of the temporary file
        if error.errno is not None and (full or error.filename is None):
            error.filename, error.filename2 = os.fspath(path), None
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
        InputError: Another process has locked the folder, or a link in it leaves it.
    """
    alone = int(os.environ.get("WORLD_SIZE") or 1) == 1
    first = alone or int(os.environ.get("RANK") or 0) == 0
    if first:
        with naming(folder):
            folder.mkdir(parents=True, exist_ok=True)
        refuse_links_out(folder)
    if fcntl is None or not first:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    _locked.add(handle)
    try:
        if not _lock(handle):
            raise InputError(
                f"{folder}: another plusone is at work in this folder; wait until it is done, or "
                "choose another --out"
            )
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
    """Waits while another process runs such a block with the same lock file; best effort."""
    try:
        handle = _turn(path)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while it is locked: who waits for it sees that it is gone
        os.close(handle)


def _turn(path: Path) -> int:
    """Waits for the lock file of `in_turn`; returns its handle."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle, wait=True)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except FileNotFoundError:
            pass  # the holder before removed it: others may have made a new one by now
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def cache_folder() -> Path | None:
    """The folder for files that can be recomputed; None if `PLUSONE_CACHE` is set and empty."""
    place = os.environ.get("PLUSONE_CACHE")
    if place == "":
        return None
    try:
        return Path(place) if place else Path.home() / ".cache" / "plusone"
    except RuntimeError:  # there is no home folder
        return None


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Removes the temporary files that a killed process left in a folder, or of one output there.

    Files of other programs, and those that a process is writing now, stay.
    """
    pattern = f".*{LEFTOVER}" if name is None else f".{glob.escape(name)}.*{LEFTOVER}"
    for leftover in folder.glob(pattern):
        with suppress(OSError):
            is_folder = leftover.is_dir() and not leftover.is_symlink()
            mode = os.O_RDONLY if is_folder else os.O_RDWR
            handle = os.open(leftover, mode | getattr(os, "O_NOFOLLOW", 0))
            try:
                if not _lock(handle):
                    continue
                shutil.rmtree(leftover) if is_folder else leftover.unlink()
            finally:
                os.close(handle)
