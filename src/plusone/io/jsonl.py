"""JSON lines that survive a kill: one value per line, appended completely or not at all.

A kill or a crash of the machine can truncate the last line. Readers skip such a line, and the next
writer removes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plusone.io.files import naming, output_file, write_text
from plusone.io.readers import parse_json


def append_jsonl(path: Path, *values: Any) -> None:
    """Appends values to a file, which is created if it is missing: all of them, or none.

    They are written in one system call, so that a kill too leaves all or none of them.

    Raises:
        OSError: The file cannot be written, for instance because the disk is full; its content is
            then unchanged.
    """
    output_file(path)
    repair_jsonl(path)
    content = _lines(values).encode()
    with naming(path), path.open("ab", buffering=0) as file:
        before = os.fstat(file.fileno()).st_size
        try:
            while content:
                content = content[file.write(content) or 0 :]  # writes can be partial
        except OSError:
            os.ftruncate(file.fileno(), before)
            raise


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Replaces the content of a file atomically."""
    write_text(path, _lines(values))


def read_jsonl(path: Path, *, skip_damaged: bool = False) -> Iterator[Any]:
    """The values of a file, one after the other.

    Args:
        path: The file.
        skip_damaged: Whether to skip every line that is not JSON; by default only a truncated last
            line is skipped.

    Raises:
        OSError: The file cannot be opened.
        ValueError: A line is not JSON; the message names its row.
    """
    with path.open("rb") as file:
        for row, line in enumerate(file, start=1):
            try:
                yield parse_json(line.decode())
            except ValueError:
                if line.endswith(b"\n") and not skip_damaged:
                    raise ValueError(f"row {row}: is not valid JSON") from None


def repair_jsonl(path: Path) -> None:
    """Removes a truncated last line, or completes it if only its line break is missing."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read(1) in (b"", b"\n"):
            return
        file.seek(0)
        start = file.read().rfind(b"\n") + 1
        file.seek(start)
        try:
            parse_json(file.read().decode())
        except ValueError:
            file.truncate(start)
        else:
            file.write(b"\n")


def _lines(values: Iterable[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)
