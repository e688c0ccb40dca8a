"""Class names that are probably mistakes: two spellings of one class, several classes in one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

LEAST_LETTERS = 5  # shorter names differ in one letter by nature (cat, car, bat)
RARER = 10  # a misspelt name occurs at most once for so many of the right one, or twice at all
MOST_CLASSES = 5_000  # more are not compared, which would take seconds
SHOWN = 5  # pairs in a sentence
BETWEEN = re.compile(r"[\s_-]+")
JOINED = re.compile(r"\s*[,;]\s*")


def similar_names(classes: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs of names that may be one class, each sorted, in order.

    They are equal but for case, spaces, `_`, `-` and a plural's s. Or one is rare and misspelt: two
    neighbouring letters are exchanged or, in names of at least five letters, one is missing or
    different. Names that differ in a digit are different.

    Args:
        classes: Name -> how often it occurs.

    >>> similar_names({"Cat": 9, "cat": 9, "dgo": 1, "dog": 9, "dogs": 9, "car": 1, "v 1": 1})
    [('Cat', 'cat'), ('dgo', 'dog'), ('dog', 'dogs')]
    """
    if len(classes) > MOST_CLASSES:
        return []

    def rare(pair: tuple[str, str]) -> bool:
        least, most = sorted(classes[name] for name in pair)
        return least <= max(2, most // RARER)

    alike: dict[str, list[str]] = {}
    for name in classes:
        plain = _plain(name)
        for key in {plain, *_without_a_letter(plain)}:  # what names one letter apart share
            alike.setdefault(key, []).append(name)
    pairs = {pair for names in alike.values() for pair in combinations(sorted({*names}), 2)}
    return sorted(p for p in pairs if _same_word(*p) or (rare(p) and _misspelt(*p)))


def _without_a_letter(name: str) -> Iterator[str]:
    return (name[:at] + name[at + 1 :] for at in range(len(name)))


def _plain(name: str) -> str:
    return BETWEEN.sub("", name.casefold())


def _same_word(first: str, second: str) -> bool:
    a, b = sorted((_plain(first), _plain(second)), key=len)
    return a == b or (len(a) > 2 and b == f"{a}s")


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
