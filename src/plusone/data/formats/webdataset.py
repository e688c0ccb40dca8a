"""WebDataset: tar files with `key.jpg` and the labels of it in `key.cls`, `key.txt` or `key.json`.

`.cls` has the number or the name of one class; `.txt` names, one a line or separated by `|` or `,`;
`.json` a name (`|` between several), a number, a list of them, or an object with `labels` and,
optionally, `negatives`, `truth`, `split` and `group`. A file `classes.txt` beside the shards names
the classes that numbers mean; -1 and null are no class.

Members with Python objects (`.pyd`, `.pth`, ...) are never read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data._tar import Member, content
from plusone.data.dataset import Dataset
from plusone.data.formats._longform import ALL_OTHERS, ClassCodes, Lists
from plusone.data.formats._sharded import MEMBER, Sharded, ShardProblems, shard_table
from plusone.data.formats.base import ReadOptions
from plusone.data.formats.csv_text import SEPARATOR, read_class_list, split_names
from plusone.data.shards import TAR, members, shards_of
from plusone.data.table import LABEL_COLUMNS, LabelTable
from plusone.errors import InputError
from plusone.io.readers import parse_json

PICKLED = ("pyd", "pickle", "pkl", "pth", "pt")
LARGEST = 2**24  # bytes of a member with labels


def detects(path: Path) -> bool:
    """A tar file, a folder with tar files, or a pattern of them."""
    shards = shards_of(path)
    return bool(shards) and shards[0].suffix.lower() == TAR


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads the labels of all samples with an image; ids are `shard.tar/key.jpg`."""
    images = Sharded.find(path)
    if images is None or images.shards[0].suffix.lower() != TAR:
        raise InputError(f"{path}: has no tar files in it")
    ids = images.ids()
    if not ids:
        raise InputError(f"{path}: its tar files have no images in them")
    problems = ShardProblems(path, images.root, ids)
    listed = images.root / "classes.txt"
    known = options.classes or (read_class_list(listed) if listed.is_file() else None)
    labels = _Labels(known, problems)
    pickled = 0
    for shard, names in zip(images.shards, images.names, strict=True):
        places = members(shard)
        kinds: dict[str, dict[str, Member]] = {}
        for name, place in places.items():
            match = MEMBER.fullmatch(name)
            if match is not None and isinstance(place, Member):
                kinds.setdefault(match[1], {})[match[2].lower()] = place
        for name in names:
            parts = kinds[MEMBER.fullmatch(name)[1]]  # type: ignore[index]
            labels.add(shard, parts)
            pickled += any(kind in PICKLED for kind in parts)
    return Dataset(labels.table(images, pickled), name=images.name(path))


class _Labels:
    """The labels of the samples, one after the other."""

    def __init__(self, classes: Sequence[str] | None, problems: ShardProblems) -> None:
        self.listed = classes
        self.problems = problems
        self.codes = ClassCodes(classes, problems)
        self.columns: dict[str, list[list[int]]] = {"labels": [], "negatives": [], "truth": []}
        self.starred: list[int] = []
        self.texts: dict[str, list[str]] = {"split": [], "group": []}
        self.sources: dict[str, int] = {}
        self.row = 0

    def add(self, shard: Path, parts: Mapping[str, Member]) -> None:
        """Reads the labels of the next sample."""
        self.row += 1
        given: dict[str, Any] = {}
        try:
            given = self._given(shard, parts)
        except UnicodeDecodeError:
            self.problems.add("its labels are not UTF-8 text", row=self.row)
        except ValueError as error:
            self.problems.add(f"its labels cannot be read ({error})", row=self.row)
        if given.get("negatives") in (ALL_OTHERS, [ALL_OTHERS]):
            self.starred.append(self.row - 1)
            given["negatives"] = []
        for name, lists in self.columns.items():
            lists.append(self._codes(given.get(name, []), name))
        for name, texts in self.texts.items():
            text = given.get(name)
            texts.append("" if text is None else str(text).strip())

    def _given(self, shard: Path, parts: Mapping[str, Member]) -> dict[str, Any]:
        """What the members of a sample say: `labels` and what else there is."""
        given: dict[str, Any] = {}
        if "json" in parts:
            value = parse_json(self._text(shard, parts["json"]))
            given = dict(value) if isinstance(value, dict) else {"labels": value}
            key = next((name for name in LABEL_COLUMNS if name in given), None)
            if key is not None:
                self._count("json")
                return given | {"labels": given[key]}
        if "cls" in parts:
            self._count("cls")
            text = self._text(shard, parts["cls"]).strip()
            one = int(text) if re.fullmatch(r"-?\d{1,9}", text) else text
            return given | {"labels": [one] if text else []}
        if "txt" in parts:
            self._count("txt")
            text = re.sub(r"[\n,]", SEPARATOR, self._text(shard, parts["txt"]))
            return given | {"labels": split_names(text)}
        return given | {"labels": []}

    def _count(self, kind: str) -> None:
        self.sources[kind] = self.sources.get(kind, 0) + 1

    def _text(self, shard: Path, member: Member) -> str:
        if member.size > LARGEST:
            raise ValueError(f"{member.size:,} bytes, more than the {LARGEST:,} allowed")
        return content(shard, member).decode("utf-8-sig")

    def _codes(self, value: Any, column: str) -> list[int]:
        """Codes of a text with names, a number, or a list of names and numbers."""
        codes = []
        if isinstance(value, str):
            value = split_names(value)
        for one in value if isinstance(value, list) else [value]:
            name = self._name(one, column)
            code = None if name is None else self.codes.code(name, self.row)
            if code is not None:
                codes.append(code)
        return codes

    def _name(self, value: Any, column: str) -> str | None:
        """The name of a class given by its name or its number; None if it is no class."""
        if value is None or value == -1:
            return None
        if isinstance(value, str):
            return value.strip()
        if not isinstance(value, int) or isinstance(value, bool):
            self.problems.add(
                f"{column} has {str(value)[:80]!r}, which is neither a name nor a number of a "
                "class",
                row=self.row,
            )
            return None
        if self.listed is None:
            return str(value)
        if not 0 <= value < len(self.listed):
            self.problems.add(
                f"class number {value} is none of the {len(self.listed)} classes, which are "
                "numbered from 0",
                row=self.row,
            )
            return None
        return self.listed[value]

    def table(self, images: Sharded, pickled: int) -> LabelTable:
        """The table of all samples."""
        never = "members with Python objects (.pyd, .pth) are never read"
        if not self.sources and not self.problems:
            raise InputError(
                f"{self.problems.source}: no image has labels: key.jpg needs key.cls, key.txt or "
                f"key.json (with 'labels') beside it in the tar file{f'; {never}' * bool(pickled)}"
            )
        lists = {name: _lists(rows) for name, rows in self.columns.items() if any(rows)}
        lists.setdefault("labels", _lists(self.columns["labels"]))
        if self.starred:
            starred = np.array(self.starred, dtype=np.int64)
            lists["negatives"] = replace(_lists(self.columns["negatives"]), starred=starred)
        texts = {name: words for name, words in self.texts.items() if any(words)}
        notes = [f"labels from .{kind} of {n} images" for kind, n in sorted(self.sources.items())]
        notes += [f"{never}: {pickled} samples have one"] if pickled else []
        return shard_table(images, self.codes, lists, texts, self.problems, tuple(notes))


def _lists(lists: list[list[int]]) -> Lists:
    codes = np.fromiter((code for row in lists for code in row), dtype=np.int32)
    return Lists(codes, np.array([len(row) for row in lists], dtype=np.int32))
