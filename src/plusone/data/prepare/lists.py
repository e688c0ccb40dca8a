"""Lines of the text lists that public data sets consist of."""

from __future__ import annotations

import re
from pathlib import Path

from plusone.data.formats.checks import name_fault
from plusone.errors import Problems

NUMBER = re.compile("[0-9]{1,18}")


def text_lines(path: Path, problems: Problems) -> list[tuple[int, str]]:
    """Row number (from 1) and text of every line that is not blank, without outer spaces."""
    found = []
    for row, raw in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        try:
            text = raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            problems.add(f"{raw[:80]!r} is not UTF-8", row=row, source=path)
            continue
        if text:
            found.append((row, text))
    return found


def numbered(path: Path, problems: Problems) -> dict[int, tuple[int, str]]:
    """Lines `number text` as number -> (row, text), in the order of the file."""
    found: dict[int, tuple[int, str]] = {}
    for row, line in text_lines(path, problems):
        number, _, text = line.partition(" ")
        if not NUMBER.fullmatch(number) or not text.strip():
            problems.add(f"{line[:80]!r} is not a number and a value", row=row, source=path)
        elif int(number) in found:
            problems.add(f"number {number} occurs twice", row=row, source=path)
        else:
            found[int(number)] = (row, text.strip())
    return found


def check_classes(path: Path, names: list[tuple[int, str]], problems: Problems) -> None:
    """Records class names, given with their rows, that are unprintable or occur twice."""
    seen: set[str] = set()
    for row, name in names:
        if fault := name_fault(name):
            problems.add(f"class name {name!r} {fault}", row=row, source=path)
        elif name in seen:
            problems.add(f"class {name!r} occurs twice", row=row, source=path)
        seen.add(name)
    if not names and not problems:
        problems.add("names no class", source=path)
