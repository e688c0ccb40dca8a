"""What the readers of shards share: names of images, splits of files, problems of items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plusone.data.checks import split_name
from plusone.data.images import IMAGE_SUFFIXES
from plusone.data.shards import TAR, members, root_of, shards_of
from plusone.errors import InputError, Problems

# The key of a sample and what is in the member, as `webdataset` divides names.
MEMBER = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]+)")


@dataclass(frozen=True)
class Sharded:
    """The images in shards.

    Args:
        root: The folder that ids are relative to.
        shards: The files.
        names: The names of the images in each.
    """

    root: Path
    shards: tuple[Path, ...]
    names: tuple[tuple[str, ...], ...]

    @classmethod
    def find(cls, path: Path) -> Sharded | None:
        """The images in the shards that a path stands for; None if it stands for no shards.

        Raises:
            InputError: A shard cannot be read.
        """
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

    def splits(self) -> list[str] | None:
        """The split of each image by the names of shards or their folders; None if they have none.

        Raises:
            InputError: Some shards are named after a split, and others are not.
        """
        kinds = [_split_of(shard, self.root) for shard in self.shards]
        if not any(kinds):
            return None
        if not all(kinds):
            other, one = self.shards[kinds.index(None)], next(filter(None, kinds))
            raise InputError(
                f"{other}: is not of the split train, val or test by its name or folder, but "
                f"others are ({one}); rename it, or name the files to read with a pattern"
            )
        return [str(kind) for kind, names in zip(kinds, self.names, strict=True) for _ in names]


class ShardProblems(Problems):
    """Problems of items in shards, which are named by their ids.

    Args:
        source: What is read.
        root: The folder of the ids.
        ids: The items; row `n`, counted from 1, is `ids[n - 1]`.
    """

    def __init__(self, source: Path, root: Path, ids: Sequence[str]) -> None:
        super().__init__(source)
        self.root, self.ids = root, ids

    def add(self, what: str, *, row: int | None = None, source: Path | str | None = None) -> None:
        """Records one problem; `row` counts the items of all shards from 1."""
        super().add(what, source=source if row is None else self.root / self.ids[row - 1])


def image_names(shard: Path) -> list[str]:
    """The names of the images in a shard, in order: one for each sample or row.

    Raises:
        InputError: The shard is damaged, or a sample has several images.
    """
    try:
        names = list(members(shard))
    except OSError as error:
        raise InputError(f"{shard}: cannot be read ({error.strerror or error})") from None
    if shard.suffix.lower() != TAR:
        return names
    found: dict[str, str] = {}
    for name in names:
        match = MEMBER.fullmatch(name)
        if match is None or not name.lower().endswith(IMAGE_SUFFIXES):
            continue
        key, kind = match[1], f".{match[2].lower()}"
        other = found.get(key)
        if other is None or (kind in IMAGE_SUFFIXES and not _is_plain(other)):
            found[key] = name
        elif _is_plain(other) and kind in IMAGE_SUFFIXES:
            raise InputError(f"{shard}: sample {key!r} has two images, {other!r} and {name!r}")
    return list(found.values())


def _is_plain(name: str) -> bool:
    """Whether a member is `key.jpg`, not such as `key.mask.png`."""
    match = MEMBER.fullmatch(name)
    return match is not None and f".{match[2].lower()}" in IMAGE_SUFFIXES


def _split_of(shard: Path, root: Path) -> str | None:
    """The split in the name of a file (`train-000.tar`), or of its folder below the root."""
    word = re.split(r"[^A-Za-z]", shard.stem)[0]
    return split_name(word) or (None if shard.parent == root else split_name(shard.parent.name))
