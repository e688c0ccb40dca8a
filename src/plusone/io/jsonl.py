"""JSON lines that survive a kill: one value per line, added whole or not at all.

A kill or a crash of the machine can cut the last line. Readers pass over such a line, and the next
writer removes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plusone.io.files import naming, write_text
from plusone.io.readers import parse_json


def append_jsonl(path: Path, *values: Any) -> None:
    """Adds values to a file, which is created if it is missing: all of them, or none.

    They go to the system in one call, so that a kill keeps all or none of them as well.

    Raises:
        OSError: The file cannot be written, for instance because the disk is full; its content is
            then what it was before.
    """
    repair_jsonl(path)
    content = _lines(values).encode()
    with naming(path), path.open("ab", buffering=0) as file:
        before = os.fstat(file.fileno()).st_size
        try:
            while content:
                content = content[file.write(content) or 0 :]  # a full disk may take a part
        except OSError:
            os.ftruncate(file.fileno(), before)
            raise


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Replaces the content of a file in one step."""
    write_text(path, _lines(values))


def read_jsonl(path: Path, *, skip_damaged: bool = False) -> Iterator[Any]:
    """The values of a file, one after the other.

    Args:
        path: The file.
        skip_damaged: Whether to pass over every line that is not JSON; otherwise only a last line
            that was cut off is passed over.

    Raises:
        OSError: The file cannot be opened.
        ValueError: A line is not JSON; the text names its row.
    """
    with path.open("rb") as file:
        for row, line in enumerate(file, start=1):
            try:
                yield parse_json(line.decode())
            except ValueError:
                if line.endswith(b"\n") and not skip_damaged:
                    raise ValueError(f"row {row}: is not valid JSON") from None


def repair_jsonl(path: Path) -> None:
    """Removes a last line that was cut off, or ends it if nothing but its end is missing."""
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
