"""Checks that all readers share: ids, classes, splits, groups, features, image files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.shards import is_image, shard_of
from plusone.data.table import Strings
from plusone.errors import InputError, Problems
from plusone.io.readers import NAMES

SPLIT_NAMES = {
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}
LONGEST_ID = 1024  # numpy strings have one width: a single huge id would make all of them huge
CHUNK = 65536
ROWS_AT_ONCE = 8192

# Control characters, and the halves of surrogate pairs that undecodable file names leave behind.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
SUSPICIOUS = re.compile(
    "(?:^|\n)(?:\n|$|/|[A-Za-z]:)|\\.\\.|\\\\|[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
)


def split_name(text: str) -> str | None:
    """The split that a word names, or None.

    >>> split_name("Validation"), split_name("holdout")
    ('val', None)
    """
    return SPLIT_NAMES.get(text.strip().lower())


def name_fault(name: str) -> str | None:
    """What is wrong with a class name, or None."""
    if not name.strip():
        return "is empty"
    if UNPRINTABLE.search(name):
        return "has a control character or an undecodable byte in it"
    return None


def id_fault(name: str) -> str | None:
    """What is wrong with an id, or None; ids are paths below a folder and must stay there.

    >>> id_fault("a/../../b.jpg")
    'leaves its folder'
    """
    if fault := name_fault(name):
        return fault
    if name.startswith(("/", "\\")) or re.match("[A-Za-z]:", name):
        return "leaves its folder"
    if ".." in re.split(r"[/\\]", name):
        return "leaves its folder"
    if "\\" in name:
        return "has a backslash (write '/' between folders)"
    if len(name) >= LONGEST_ID:
        return f"has {LONGEST_ID} or more characters"
    return None


def line_of(lines: Sequence[int] | None, row: int) -> int | None:
    """The line of the file that holds a table row, if the format has lines."""
    return None if lines is None else int(lines[row])


def check_ids(ids: Strings, problems: Problems, lines: Sequence[int] | None = None) -> None:
    """Reports ids that are empty, leave their folder or occur twice.

    Args:
        ids: `[N]`.
        problems: Where they are reported.
        lines: The line of each row in the file, for formats with lines.
    """
    for start in range(0, len(ids), CHUNK):
        part = ids[start : start + CHUNK].tolist()
        text = "\n".join(part)
        plain = SUSPICIOUS.search(text) is None and text.count("\n") == len(part) - 1
        if plain and ids.dtype.itemsize < 4 * LONGEST_ID:
            continue
        for row, name in enumerate(part, start):
            if fault := id_fault(name):
                problems.add(f"id {_short(name)} {fault}", row=line_of(lines, row))
    for row, first in repeats(ids):
        where = f" (first in row {lines[first]})" if lines is not None else ""
        problems.add(f"id {_short(str(ids[row]))} occurs twice{where}", row=line_of(lines, row))


def check_groups(groups: Strings, problems: Problems, lines: Sequence[int] | None = None) -> None:
    """Reports names of groups that are empty, unprintable or too long.

    Args:
        groups: The group of each item, `[N]`.
        problems: Where they are reported.
        lines: The line of each row in the file, for formats with lines.
    """
    for name in np.unique(groups).tolist():
        fault = name_fault(name)
        if fault == "is empty":
            fault = "is empty; an item of no group needs a name of its own there, such as its id"
        if fault is None and len(name) >= LONGEST_ID:
            fault = f"has {LONGEST_ID} or more characters"
        for row in np.flatnonzero(groups == name) if fault else ():
            where = "group" if lines is not None else f"group[{row}]"
            problems.add(f"{where} {_short(name)} {fault}", row=line_of(lines, int(row)))


def id_array(names: Sequence[str], source: Path | str, what: str = "ids") -> Strings:
    """The ids of a file as one array; too long ids are cut, and `check_ids` reports them."""
    cut = [name[:LONGEST_ID] for name in names]
    check_width(len(cut), max(map(len, cut), default=0), source, what)
    return np.asarray(cut, dtype=np.str_)


def check_width(count: int, longest: int, source: Path | str, what: str = "ids") -> None:
    """Refuses ids that need too much memory: in an array, all are as wide as the longest."""
    if 4 * count * longest > NAMES:
        raise InputError(
            f"{source}: {count:,} {what} of which one has {longest} characters need more than "
            f"{NAMES / 2**30:g} GiB; give it a shorter one"
        )


def repeats(ids: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Pairs (row, row of its first occurrence) of all repeated ids.

    >>> repeats(np.array(["a", "b", "a"]))
    [(2, 0)]
    """
    if len(ids) < 2 or (ids[1:] > ids[:-1]).all():
        return []
    order = np.argsort(ids, kind="stable")
    is_repeat = np.zeros(len(ids), dtype=bool)
    step = CHUNK
    for start in range(1, len(ids), step):  # in pieces: a sorted copy of all ids is large
        piece = ids[order[start - 1 : start + step]]
        is_repeat[start : start + len(piece) - 1] = piece[1:] == piece[:-1]
    pairs = []
    for position in np.flatnonzero(is_repeat):
        first = position
        while is_repeat[first]:
            first -= 1
        pairs.append((int(order[position]), int(order[first])))
    return sorted(pairs)


def check_names(classes: tuple[str, ...], problems: Problems) -> None:
    """Reports class names that are empty or occur twice."""
    seen: set[str] = set()
    for place, name in enumerate(classes):
        if fault := name_fault(name):
            problems.add(f"class name {name!r} at place {place} {fault}")
        elif name in seen:
            problems.add(f"class {name!r} occurs twice")
        seen.add(name)


def check_splits(
    values: npt.NDArray[Any], problems: Problems, lines: Sequence[int] | None = None
) -> Strings:
    """The splits under their usual names; other names are reported.

    Args:
        values: The split of each item, `[N]`.
        problems: Where they are reported.
        lines: The line of each row in the file, for formats with lines.
    """
    texts = values.astype(np.str_)
    names = {text: split_name(text) for text in np.unique(texts).tolist()}
    for text, name in names.items():
        for row in np.flatnonzero(texts == text) if name is None else ():
            where = "split" if lines is not None else f"split[{row}]"
            problems.add(
                f"{where} {text!r} is not train, val or test", row=line_of(lines, int(row))
            )
    out = np.full(len(texts), "", dtype="<U5")
    for text, name in names.items():
        out[texts == text] = name or ""
    return out


def row_not_finite(x: npt.NDArray[Any]) -> int | None:
    """The first row with a NaN or infinite value, or None; rows are read block by block.

    >>> row_not_finite(np.array([[1.0], [np.inf]]))
    1
    """
    for start in range(0, len(x), ROWS_AT_ONCE):
        block = x[start : start + ROWS_AT_ONCE]
        bad = np.flatnonzero(~np.isfinite(block).reshape(len(block), -1).all(axis=1))
        if len(bad):
            return start + int(bad[0])
    return None


def images_root(
    ids: Strings,
    root: Path | None,
    problems: Problems,
    lines: Sequence[int] | None = None,
    *,
    check: bool = True,
    required: bool = False,
) -> tuple[Path | None, tuple[str, ...]]:
    """Checks that image files exist; returns the root to use and notes.

    If none of the files exists, the items are assumed not to be images: the root is None and a
    note says so, unless `required`. If only some exist, each missing one is reported.
    """
    if root is None or not check or not len(ids):
        return root, ()
    missing = missing_images(ids, root)
    if len(missing) == len(ids) and not required:
        return None, (f"no image file of the table exists below {root}: labels only",)
    for row in missing:
        name = str(ids[row])
        if id_fault(name) is None:  # otherwise it was reported already
            where = f"does not exist below {root}"
            problems.add(f"image {_short(name)} {where}", row=line_of(lines, row))
    return root, ()


def missing_images(ids: Strings, root: Path) -> list[int]:
    """Rows whose id is not a file below `root`, nor in a shard there.

    Each folder is listed once, which is much faster than a system call for each file.
    """
    listings: dict[str, frozenset[str] | None] = {}  # None: a folder in a shard
    missing = []
    for start in range(0, len(ids), CHUNK):
        for row, name in enumerate(ids[start : start + CHUNK].tolist(), start):
            folder, _, file = name.rpartition("/")
            if folder not in listings:
                inside = not folder or id_fault(folder) is None
                try:
                    listings[folder] = frozenset(os.listdir(root / folder) if inside else ())
                except (OSError, ValueError):
                    in_shard = inside and shard_of(root / name) is not None
                    listings[folder] = None if in_shard else frozenset()
            listing = listings[folder]
            # The second check is for file systems that ignore case or Unicode normalisation.
            exists = is_image(root / name) if listing is None else file in listing
            exists = exists or (bool(listing) and os.path.isfile(root / name))
            if not exists:
                missing.append(row)
    return missing


def _short(name: str) -> str:
    shown = name.encode("utf-8", "backslashreplace").decode()
    return repr(shown if len(shown) <= 80 else shown[:77] + "...")
