"""Tar files read in place: the position of every member, found once from their headers."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from plusone.errors import InputError

LARGEST = 2**29  # bytes of a member that is read
LONGEST_HEADER = 2**20  # bytes
# Digits in a row; Python 3.11.9 and earlier take time quadratic in it for a pax header.
NUMBER = re.compile(rb"[0-9]{129}")
MAGIC = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"(\xb5": "zstd"}


class Member(NamedTuple):
    """Where the content of a member is in its tar file, in bytes."""

    offset: int
    size: int


def index(path: Path) -> dict[str, Member]:
    """The files in a tar file, in their order; names are keys here and never paths on the disk.

    Raises:
        InputError: The file is compressed, truncated or damaged, has a link or a device in it, or
            a name twice.
        OSError: It cannot be opened.
    """
    members: dict[str, Member] = {}
    with path.open("rb") as raw:
        kind = MAGIC.get(raw.read(2))
        if kind is not None:
            raise InputError(
                f"{path}: is compressed ({kind}), so no member can be read by its position; "
                "decompress it to a plain .tar (images are compressed already)"
            )
        raw.seek(0)
        try:
            for info in _headers(raw, path.stat().st_size):
                name = _name(info, path)
                if name in members:
                    raise InputError(f"{path}: member {name!r} occurs twice")
                members[name] = Member(info.offset_data, info.size)
        except InputError:
            raise
        except (tarfile.TarError, ValueError, EOFError, RecursionError, OverflowError) as error:
            where = f"after {next(reversed(members))!r}" if members else "at its beginning"
            raise InputError(
                f"{path}: is truncated or damaged {where} ({error}); copy or download it again"
            ) from None
    return members


class _Headers:
    """A tar file of which only headers are read: `ValueError` for one that would take too long."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw, self.seek, self.tell = raw, raw.seek, raw.tell

    def read(self, size: int) -> bytes:
        """The next bytes."""
        if size > LONGEST_HEADER:
            raise ValueError(f"a header has {size:,} bytes, more than {LONGEST_HEADER:,}")
        content = self.raw.read(size)
        if NUMBER.search(content):
            raise ValueError("a header has more than 128 digits in a row")
        return content


def _headers(raw: BinaryIO, size: int) -> Iterator[tarfile.TarInfo]:
    """The members that are no folders; `ValueError` if one is not wholly within the file."""
    end = 0
    with tarfile.open(fileobj=cast(BinaryIO, _Headers(raw)), mode="r:") as archive:
        while (info := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # it keeps all of them
            if info.offset_data < end or info.size < 0:
                raise ValueError("a member begins before the end of the one before")
            end = info.offset_data + (info.size if info.isreg() else 0)
            if end > size:
                raise ValueError(f"the file ends in {info.name!r}")
            if not info.isdir():
                yield info
    raw.seek(-(-end // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
    rest = raw.read(tarfile.BLOCKSIZE)  # zeros, or nothing; `tarfile` takes the rest for the end
    if any(rest) or 0 < len(rest) < tarfile.BLOCKSIZE:
        raise ValueError("what follows is no member")


def _name(info: tarfile.TarInfo, path: Path) -> str:
    """The name of a plain file, as pathlib writes it: `tar` is often given `.`, and adds `./`."""
    if not info.isreg() or info.issparse():
        what = "a link" if info.issym() or info.islnk() else "no plain file"
        raise InputError(
            f"{path}: member {info.name!r} is {what}; links, devices and sparse files in a tar "
            "file are not read: write it again without them"
        )
    parts = [part for part in info.name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise InputError(f"{path}: member {info.name!r} leaves its folder")
    return "/".join(parts)


def content(path: Path, member: Member) -> bytes:
    """The content of a member; `ValueError` if it is too large or the file ends in it."""
    if member.size > LARGEST:
        raise ValueError(f"it has {member.size:,} bytes, more than the {LARGEST:,} allowed")
    with path.open("rb") as file:  # opened anew: an open file has one position for all processes
        file.seek(member.offset)
        read = file.read(member.size)
    if len(read) < member.size:
        raise ValueError("the tar file ends in it")
    return read
