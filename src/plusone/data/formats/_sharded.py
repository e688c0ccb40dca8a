"""What the readers of shards share: names of images, splits of files, problems, the table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plusone.data.checks import check_groups, check_ids, check_splits, id_array, split_name
from plusone.data.formats._longform import ClassCodes, Lists, assemble
from plusone.data.images import IMAGE_SUFFIXES
from plusone.data.shards import TAR, members, root_of, shards_of
from plusone.data.table import LabelTable, Strings
from plusone.errors import InputError, Problems

# The key of a sample and what is in the member, as `webdataset` divides names.
MEMBER = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]+)")


@dataclass(frozen=True)
class Sharded:
    """The images in shards."""

    root: Path
    shards: tuple[Path, ...]
    names: tuple[tuple[str, ...], ...]

    @classmethod
    def find(cls, path: Path) -> Sharded | None:
        """The images in the shards that a path stands for; None if it stands for no shards."""
        shards = shards_of(path)
        if not shards:
            return None
        return cls(root_of(path, shards), shards, tuple(tuple(image_names(one)) for one in shards))

    def name(self, path: Path) -> str:
        """A short name of the data: of the file or folder that a path is, or of the root."""
        return (path if path.exists() else self.root).resolve().stem

    def ids(self) -> list[str]:
        """The path of each image below the root."""
        return [
            f"{shard.relative_to(self.root).as_posix()}/{name}"
            for shard, names in zip(self.shards, self.names, strict=True)
            for name in names
        ]

    def splits(self) -> Strings | None:
        """The split of each image, by the names of shards or their folders; None without any."""
        kinds = [_split_of(shard, self.root) for shard in self.shards]
        if not any(kinds):
            return None
        if not all(kinds):
            other, one = self.shards[kinds.index(None)], next(filter(None, kinds))
            raise InputError(
                f"{other}: is not of the split train, val or test by its name or folder, but "
                f"others are ({one}); rename it, or name the files to read with a pattern"
            )
        return np.repeat(np.array(kinds, dtype="<U5"), [len(names) for names in self.names])


class ShardProblems(Problems):
    """Problems of items in shards, which are named by their ids."""

    def __init__(self, source: Path, root: Path, ids: Sequence[str]) -> None:
        super().__init__(source)
        self.root, self.ids = root, ids

    def add(self, what: str, *, row: int | None = None, source: Path | str | None = None) -> None:
        """Records one problem; `row` counts the items of all shards from 1."""
        super().add(what, source=source if row is None else self.root / self.ids[row - 1])


def shard_table(
    images: Sharded,
    codes: ClassCodes,
    lists: Mapping[str, Lists],
    texts: Mapping[str, Sequence[str]],
    problems: ShardProblems,
    notes: tuple[str, ...],
) -> LabelTable:
    """The table of all images."""
    lines = range(1, len(problems.ids) + 1)
    ids = id_array(problems.ids, problems.source)
    check_ids(ids, problems, lines)
    arrays = {name: id_array(words, problems.source, f"{name}s") for name, words in texts.items()}
    split, groups = arrays.get("split"), arrays.get("group")
    split = images.splits() if split is None else check_splits(split, problems, lines)
    if groups is not None:
        check_groups(groups, problems, lines)
    classes, labels, truth, _ = assemble(codes, lists, lines)
    if not classes:
        raise InputError(f"{problems.source}: no image has a class")
    return LabelTable(ids, classes, labels, truth, split, images.root, notes=notes, groups=groups)


def image_names(shard: Path) -> list[str]:
    """The names of the images in a shard, in order: one for each sample or row."""
    try:
        names = list(members(shard))
    except OSError as error:
        raise InputError(f"{shard}: cannot be read ({error.strerror or error})") from None
    if shard.suffix.lower() != TAR:
        return names
    images: dict[str, dict[str, str]] = {}  # key -> what follows it -> name
    for name in names:
        match = MEMBER.fullmatch(name)
        if match is not None and name.lower().endswith(IMAGE_SUFFIXES):
            images.setdefault(match[1], {})[f".{match[2].lower()}"] = name
    return [_image_of(shard, key, kinds) for key, kinds in images.items()]


def _image_of(shard: Path, key: str, kinds: Mapping[str, str]) -> str:
    """The image of a sample: `key.jpg`, not such as `key.mask.png` beside it."""
    plain = [name for kind, name in kinds.items() if kind in IMAGE_SUFFIXES]
    names = plain or list(kinds.values())
    if len(plain) > 1:
        raise InputError(f"{shard}: sample {key!r} has two images, {names[0]!r} and {names[1]!r}")
    if len(names) > 1:
        raise InputError(
            f"{shard}: {names[0]!r} and {names[1]!r} are images of one sample, {key!r}, because "
            "its name ends at the first dot; replace the other dots in the names of images (or, "
            f"if it is one sample, name the image to use {key}{Path(names[0]).suffix})"
        )
    return names[0]


def _split_of(shard: Path, root: Path) -> str | None:
    """The split in the name of a file (`train-000.tar`), or of its folder below the root."""
    word = re.split(r"[^A-Za-z]", shard.stem)[0]
    return split_name(word) or (None if shard.parent == root else split_name(shard.parent.name))
