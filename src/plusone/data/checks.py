"""Checks that all readers share: ids, classes, splits, groups, features, image files."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
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
LEAST_LETTERS = 5  # shorter names differ in one letter by nature (cat, car, bat)
RARER = 10  # how much rarer a misspelt name is than the right one, unless it occurs once or twice
MOST_CLASSES = 5_000  # more are not compared, which would take seconds
SHOWN = 5  # pairs in a sentence
FEWEST_CLASSES = 5  # with fewer, one class having most labels says nothing
MAIN_SHARE = 0.3  # of all labels: what one class has if it is "the main thing"
MAIN_TIMES = 4  # as many as the next class
PLURAL = re.compile("s|es|e|n|en|er")
ENDING = re.compile(f"(?:{PLURAL.pattern}|ies|y)")
ACCENTS = re.compile("[\u0300-\u036f]")
# Characters that take no room: hyphens and joiners that are not shown, variants, marks of order.
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]")
BETWEEN = re.compile(r"[\s_-]+")
JOINED = re.compile(r"\s*[,;]\s*")
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
    """Reports ids that are empty, leave their folder or occur twice."""
    for start in range(0, len(ids), CHUNK):
        part = ids[start : start + CHUNK].tolist()
        text = "\n".join(part)
        plain = SUSPICIOUS.search(text) is None and text.count("\n") == len(part) - 1
        if plain and ids.dtype.itemsize < 4 * LONGEST_ID:
            continue
        for row, name in enumerate(part, start):
            if fault := id_fault(name):
                problems.add(f"id {short(name)} {fault}", row=line_of(lines, row))
    for row, first in repeats(ids):
        where = f" (first in row {lines[first]})" if lines is not None else ""
        problems.add(f"id {short(str(ids[row]))} occurs twice{where}", row=line_of(lines, row))


def check_groups(groups: Strings, problems: Problems, lines: Sequence[int] | None = None) -> None:
    """Reports names of groups that are empty, unprintable or too long."""
    names, name_of = np.unique(groups, return_inverse=True)
    faults = [_group_fault(name) for name in names.tolist()]
    for row in np.flatnonzero(np.array([fault is not None for fault in faults])[name_of]).tolist():
        where = "group" if lines is not None else f"group[{row}]"
        fault = f"{short(str(groups[row]))} {faults[name_of[row]]}"
        problems.add(f"{where} {fault}", row=line_of(lines, row))


def _group_fault(name: str) -> str | None:
    fault = name_fault(name)
    if fault == "is empty":
        return "is empty; an item of no group needs a name of its own there, such as its id"
    if fault is None and len(name) >= LONGEST_ID:
        return f"has {LONGEST_ID} or more characters"
    return fault


def id_array(names: Sequence[str], source: Path | str, what: str = "ids") -> Strings:
    """The ids of a file as one array; too long ids are cut, and `check_ids` reports them."""
    if any(name.endswith("\0") for name in names):  # numpy would cut it off
        name = next(name for name in names if name.endswith("\0"))
        raise InputError(f"{source}: {short(name)} among the {what} ends in a control character")
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
    firsts = np.maximum.accumulate(np.where(is_repeat, 0, np.arange(len(ids))))
    repeated = np.flatnonzero(is_repeat)
    pairs = zip(order[repeated].tolist(), order[firsts[repeated]].tolist(), strict=True)
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


def check_twins(classes: Sequence[str], source: Path | str) -> None:
    r"""Refuses class names that look the same: composed otherwise, or with invisible characters.

    >>> check_twins(("caf\u00e9", "cafe"), "a.csv")
    """
    seen: dict[str, str] = {}
    for name in classes:
        plain = name
        if not name.isascii():
            plain = unicodedata.normalize("NFC", INVISIBLE.sub("", name))
        if (other := seen.setdefault(plain, name)) != name:
            raise InputError(
                f"{source}: the class names {other!a} and {name!a} look the same; write "
                "one of them everywhere"
            )


def check_splits(
    values: npt.NDArray[Any], problems: Problems, lines: Sequence[int] | None = None
) -> Strings:
    """The splits under their usual names; other names are reported."""
    texts = values.astype(np.str_)
    names, name_of = np.unique(texts, return_inverse=True)
    known = np.array([split_name(text) or "" for text in names.tolist()], dtype="<U5")
    out: Strings = known[name_of]
    for row in np.flatnonzero(out == "").tolist():
        where = "split" if lines is not None else f"split[{row}]"
        what = f"{where} {short(str(texts[row]))} is not train, val or test"
        problems.add(what, row=line_of(lines, row))
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


def as_floats(x: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int | None]:
    """Numbers as float16 or float32, and the first row that is not finite then, or None."""
    if x.dtype not in (np.float16, np.float32):
        with np.errstate(over="ignore"):  # infinite then
            x = x.astype(np.float32)
    return x, row_not_finite(x)


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


def short(name: str) -> str:
    """A name in quotes for a message, not too long."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    return repr(shown if len(shown) <= 80 else shown[:77] + "...")


def similar_names(classes: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs of names that may be one class, each sorted, in order.

    They are equal but for case, accents, spaces, `_`, `-` and the ending of a plural (English, and
    in names of at least four letters German). Or one is rare and misspelt: two neighbouring letters
    are exchanged or, in names of at least five letters, one is missing or different. Names that
    differ in a digit are different.

    Args:
        classes: Name -> how often it occurs.

    >>> similar_names({"Cat": 9, "cat": 9, "dgo": 1, "dog": 9, "dogs": 9, "car": 1, "v 1": 1})
    [('Cat', 'cat'), ('dgo', 'dog'), ('dog', 'dogs')]
    >>> similar_names(dict.fromkeys(("Hund", "hunde", "Baum", "Bäume", "berry", "berries"), 99))
    [('Baum', 'Bäume'), ('Hund', 'hunde'), ('berries', 'berry')]
    """
    if len(classes) > MOST_CLASSES:
        return []

    def rare(pair: tuple[str, str]) -> bool:
        least, most = sorted(classes[name] for name in pair)
        return least <= max(2, most // RARER)

    alike: dict[str, list[str]] = {}
    for name in classes:
        plain = _plain(name)
        shorter = (plain[:at] + plain[at + 1 :] for at in range(len(plain)))
        stems = (plain[:-at] for at in (1, 2, 3) if ENDING.fullmatch(plain[-at:]))
        for key in {plain, *shorter, *stems}:  # what such names share
            alike.setdefault(key, []).append(name)
    pairs = {pair for names in alike.values() for pair in combinations(sorted({*names}), 2)}
    return sorted(p for p in pairs if _same_word(*p) or (rare(p) and _misspelt(*p)))


def _plain(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name.casefold())
    return BETWEEN.sub("", ACCENTS.sub("", letters))


def _same_word(first: str, second: str) -> bool:
    a, b = sorted((_plain(first), _plain(second)), key=len)
    if a == b or (a[-1:] == "y" and b == f"{a[:-1]}ies"):
        return True
    ending = b[len(a) :] if len(a) > 2 and b.startswith(a) else ""
    return ending in ("s", "es") or (len(a) > 3 and PLURAL.fullmatch(ending) is not None)


def _misspelt(first: str, second: str) -> bool:
    a, b = sorted((_plain(first), _plain(second)), key=len)
    start = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    if len(a) == len(b):
        if any(letter.isdigit() for letter in (a[start], b[start])):
            return False
        exchanged = a[start : start + 2] == b[start : start + 2][::-1]
        if len(a) > 2 and exchanged and a[start + 2 :] == b[start + 2 :]:
            return True
        return len(a) >= LEAST_LETTERS and a[start + 1 :] == b[start + 1 :]
    missing = a[start:] == b[start + 1 :] and not b[start].isdigit()
    return len(a) >= LEAST_LETTERS and missing


def joined_names(classes: Iterable[str]) -> list[str]:
    """Names that look like several: parts between commas or semicolons.

    >>> joined_names(["cat, dog", "cat", "person (sitting)"])
    ['cat, dog']
    """
    return [name for name in classes if sum(map(bool, JOINED.split(name))) > 1]


def label_warnings(classes: Sequence[str], seen: Sequence[int]) -> list[str]:
    """A sentence about classes without a seen positive, and those about their names.

    Args:
        classes: Their names.
        seen: How many seen positives each has.
    """
    return unseen_warnings(classes, seen) + name_warnings(dict(zip(classes, seen, strict=True)))


def unseen_warnings(classes: Sequence[str], seen: Sequence[int]) -> list[str]:
    """A sentence about classes without a seen positive, if there are any.

    >>> unseen_warnings(["dog", "cat"], [3, 0])[0][:73]
    '1 of 2 classes has no seen positive, so nothing can be learned of it: cat'
    """
    names = [name for name, count in zip(classes, seen, strict=True) if not count]
    if not names:
        return []
    have, which = ("has", "it") if len(names) == 1 else ("have", "them")
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return [
        f"{len(names)} of {len(classes)} classes {have} no seen positive, so nothing can be "
        f"learned of {which}: {', '.join(names[:SHOWN])}{more}; without hints (plusone hints) no "
        f"item gets {which}, see docs/rare-classes.md"
    ]


def main_class_warnings(seen: Mapping[str, int]) -> list[str]:
    """A sentence if one class has far more of the labels that people gave than any other.

    Args:
        seen: Name -> how many seen positives it has.

    >>> main_class_warnings({"person": 49, "dog": 5, "cat": 5, "car": 4, "bus": 3})[0][:54]
    "'person' is 74 % of all labels, the next, 'dog', 8 %: "
    >>> main_class_warnings({"person": 49, "dog": 51, "cat": 5})
    []
    """
    order = sorted(seen, key=lambda name: -seen[name])
    if len(order) < FEWEST_CLASSES:
        return []
    (most, next_one), total = order[:2], sum(seen.values())
    if seen[most] < MAIN_SHARE * total or seen[most] < MAIN_TIMES * seen[next_one]:
        return []
    share, other = (round(100 * seen[name] / total) for name in (most, next_one))
    return [
        f"{most!r} is {share} % of all labels, the next, {next_one!r}, {other} %: people probably "
        f"named what is largest or most common, so items of {most!r} miss their other labels, and "
        "the other classes have few examples. How readily each class is named (salience) is "
        "learned and corrected for. What helps most is to answer questions (plusone suggest, then "
        f"plusone review), and to check that {most!r} is no tag for everything"
    ]


def name_warnings(classes: Mapping[str, int]) -> list[str]:
    """A sentence about each kind of names that are probably mistakes.

    Args:
        classes: Name -> how often it occurs.

    >>> name_warnings({"dgo": 1, "dog": 1, "cat,dog": 1})[0]
    "class names that may be the same class: 'dgo' and 'dog'; give both one name if so"
    """
    sentences = []
    if pairs := similar_names(classes):
        listed = ", ".join(f"{one!r} and {other!r}" for one, other in pairs[:SHOWN])
        more = f" and {len(pairs) - SHOWN} more pairs" if len(pairs) > SHOWN else ""
        sentences.append(
            f"class names that may be the same class: {listed}{more}; give both one name if so"
        )
    if joined := joined_names(classes):
        listed = ", ".join(map(repr, joined[:SHOWN]))
        more = f" and {len(joined) - SHOWN} more" if len(joined) > SHOWN else ""
        apart = "|".join(part for part in JOINED.split(joined[0]) if part)
        sentences.append(
            f"taken for one class, although there is a comma or semicolon in it: {listed}{more}; "
            f"several labels in a cell are written with |, as in {apart}"
        )
    return sentences
